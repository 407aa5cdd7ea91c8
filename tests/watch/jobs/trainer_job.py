"""A Hugging Face Trainer, unmodified: accumulation, evaluation, checkpoints, clipping."""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


class Tokens(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        tokens = torch.arange(index, index + 16) % 64
        return {"input_ids": tokens, "labels": tokens}


def main():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
    )
    arguments = TrainingArguments(
        output_dir=sys.argv[1],
        max_steps=20,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        eval_strategy="steps",
        eval_steps=8,
        save_steps=10,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    model = LlamaForCausalLM(config)
    Trainer(model, arguments, train_dataset=Tokens(200), eval_dataset=Tokens(8)).train()


if __name__ == "__main__":
    main()
