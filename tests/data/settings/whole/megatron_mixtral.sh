MODEL_ARGS=(
    --num-layers 32
    --hidden-size 4096
    --ffn-hidden-size 14336
    --num-attention-heads 32
    --group-query-attention
    --num-query-groups 8
    --seq-length 4096
    --max-position-embeddings 32768
    --position-embedding-type rope
    --swiglu
    --normalization RMSNorm
    --disable-bias-linear
    --untie-embeddings-and-output-weights
    --tokenizer-type Llama2Tokenizer
)
MOE_ARGS=(
    --num-experts 8
    --moe-router-topk 2
    --moe-grouped-gemm
    --moe-token-dispatcher-type alltoall
    --expert-model-parallel-size 8
)
TRAINING_ARGS=(--micro-batch-size 1 --global-batch-size 256 --bf16)
PARALLEL=(--tensor-model-parallel-size 1 --pipeline-model-parallel-size 4 --use-distributed-optimizer)
torchrun --nproc_per_node 8 --nnodes 8 pretrain_gpt.py ${MODEL_ARGS[@]} ${MOE_ARGS[@]} ${TRAINING_ARGS[@]}
