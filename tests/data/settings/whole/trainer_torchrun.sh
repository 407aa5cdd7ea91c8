torchrun --nnodes 2 --nproc_per_node 8 run_clm.py \
    --model_name_or_path google/gemma-2-9b \
    --per_device_train_batch_size 1 \
    --gradient_accumulation_steps 16 \
    --block_size 4096 \
    --bf16 \
    --deepspeed ../zero2.json
