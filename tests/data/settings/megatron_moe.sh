#!/bin/bash
export NNODES=${NNODES:-16}
EP=8
#OLD="--tensor-model-parallel-size 1"
ARGS="
    --tensor-model-parallel-size 2 \
    --sequence-parallel
    --pipeline-model-parallel-size 4
    --expert-model-parallel-size $EP --num-experts 64
    --context-parallel-size=2 --cp-comm-type a2a
    --num-virtual-stages-per-pipeline-rank 2
    --micro-batch-size ${MBS:-1} --global-batch-size 512
    --bf16 --fp8-format hybrid --fp8-recipe blockwise
    --moe-token-dispatcher-type flex
    --use-distributed-optimizer --num-distributed-optimizer-instances 2
    --recompute-granularity full --recompute-method block --recompute-num-layers 3
    --seq-length $SEQ
"
torchrun --nnodes $NNODES --nproc_per_node 8 pretrain_gpt.py $ARGS
