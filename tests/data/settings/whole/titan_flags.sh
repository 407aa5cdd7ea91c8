NGPU=8 CONFIG_FILE=./llama3_70b.toml ./run_train.sh \
  --model.name llama3 --model.flavor 70B \
  --training.local_batch_size 2 --training.seq_len 8192 \
  --parallelism.tensor_parallel_degree 8 \
  --activation_checkpoint.mode full --compile.enable
