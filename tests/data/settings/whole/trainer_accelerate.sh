accelerate launch --config_file ../accelerate_fsdp1.yaml train.py \
    --model_name_or_path mistralai/Mistral-7B-v0.3 \
    --per_device_train_batch_size 2 \
    --gradient_accumulation_steps 8 \
    --max_seq_length 8192 \
    --bf16 true \
    --learning_rate 1e-5
