#!/bin/bash
# Llama 3 8B as in examples/llama of Megatron-LM
GPUS_PER_NODE=8
NUM_NODES=4
SEQ=8192
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NUM_NODES pretrain_gpt.py \
    --use-mcore-models \
    --num-layers 32 \
    --hidden-size 4096 \
    --ffn-hidden-size 14336 \
    --num-attention-heads 32 \
    --group-query-attention \
    --num-query-groups 8 \
    --kv-channels 128 \
    --seq-length $SEQ \
    --max-position-embeddings $SEQ \
    --position-embedding-type rope \
    --rotary-base 1000000 \
    --swiglu \
    --normalization RMSNorm \
    --untie-embeddings-and-output-weights \
    --disable-bias-linear \
    --tokenizer-type HuggingFaceTokenizer \
    --tokenizer-model meta-llama/Meta-Llama-3-8B \
    --tensor-model-parallel-size 1 \
    --context-parallel-size 2 \
    --micro-batch-size 1 \
    --global-batch-size 128 \
    --bf16 --fp8-format hybrid \
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
