#!/bin/bash
# Llama 3.1 8B on 32 GPUs with Hugging Face accelerate and the Trainer.
accelerate launch --config_file accelerate.yaml train.py \
    --model_name_or_path meta-llama/Llama-3.1-8B \
    --per_device_train_batch_size 2 \
    --gradient_accumulation_steps 4 \
    --max_seq_length 8192 \
    --bf16 true
