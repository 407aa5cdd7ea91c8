#!/bin/bash
# GPT-3 175B on 1,024 GPUs with Megatron-LM.

NUM_NODES=128
GPUS_PER_NODE=8
TP=8
PP=${PP:-8}

DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
)

MODEL_ARGS=(
    --num-layers 96
    --hidden-size 12288
    --num-attention-heads 96
    --seq-length 2048
    --max-position-embeddings 2048
    --tokenizer-type GPT2BPETokenizer
)

PARALLEL_ARGS=(
    --tensor-model-parallel-size $TP
    --sequence-parallel
    --pipeline-model-parallel-size $PP
    --num-layers-per-virtual-pipeline-stage 3
    --use-distributed-optimizer
    --overlap-grad-reduce
    --overlap-param-gather
)

TRAINING_ARGS=(
    --micro-batch-size 1
    --global-batch-size 1536
    --bf16
    --recompute-activations          # attention scores only
    --lr 6.0e-5
)

torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    ${MODEL_ARGS[@]} ${PARALLEL_ARGS[@]} ${TRAINING_ARGS[@]}
