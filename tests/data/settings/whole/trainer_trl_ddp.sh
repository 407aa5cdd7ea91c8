accelerate launch --num_machines 2 --num_processes 16 --multi_gpu trl/scripts/sft.py \
    --model_name_or_path microsoft/phi-4 \
    --per_device_train_batch_size 1 --gradient_accumulation_steps 4 --max_length 4096 \
    --gradient_checkpointing --bf16 --torch_compile true
