"""Every key of the sections of settings files that are about the layout alone.

Holds `KNOWN`, by format and section: any other key in them is misspelt or of a release that is not
known. Names: torchtitan's `config/job_config.py` of 0.2.2, DeepSpeed's `runtime/zero/config.py` and
accelerate's `commands/launch.py` of August 2026.
"""

from typing import Final


def _keys(prefix: str, words: str) -> frozenset[str]:
    return frozenset(prefix + word for word in words.split())


_TITAN: Final = _keys("", """
    data_parallel_replicate_degree data_parallel_shard_degree fsdp_reshard_after_forward
    tensor_parallel_degree disable_loss_parallel enable_async_tensor_parallel
    enable_compiled_autograd context_parallel_degree context_parallel_rotate_method
    context_parallel_load_balancer expert_parallel_degree expert_tensor_parallel_degree
    expert_parallel_comm_backend module_fqns_per_model_part""") | _keys("pipeline_parallel_", """
    degree split_points first_stage_less_layers last_stage_less_layers layers_per_stage schedule
    schedule_csv microbatch_size expert_parallel_overlap""")  # fmt: skip
_TITAN_CHECKPOINT: Final = _keys(
    "",
    """
    mode selective_ac_option per_op_sac_force_recompute_mm_shapes_by_fqns early_stop memory_budget
    visualize_memory_budget_pareto preserve_rng_state determinism_check debug""",
)
_ZERO: Final = _keys("", """
    stage contiguous_gradients reduce_scatter reduce_bucket_size use_multi_rank_bucket_allreduce
    allgather_partitions allgather_bucket_size overlap_comm load_from_fp32_weights
    elastic_checkpoint offload_param offload_optimizer sub_group_size cpu_offload
    cpu_offload_param cpu_offload_use_pin_memory prefetch_bucket_size param_persistence_threshold
    model_persistence_threshold max_live_parameters max_reuse_distance
    gather_16bit_weights_on_model_save module_granularity_threshold use_all_reduce_for_fetch_params
    ignore_unused_parameters legacy_stage1 round_robin_gradients zero_hpz_partition_size
    zero_quantized_weights zero_quantized_nontrainable_weights zero_quantized_gradients
    zeropp_loco_param mics_shard_size mics_hierarchical_params_gather memory_efficient_linear
    pipeline_loading_checkpoint override_module_apply log_trace_cache_warnings leaf_module
    enable_sanity_checks compute_grad_norm zenflow parameter_alignment
    save_muon_momentum_buffer_in_memory allgather_sequential""") | _keys("stage3_", """
    prefetch_bucket_size param_persistence_threshold model_persistence_threshold
    max_live_parameters max_reuse_distance gather_16bit_weights_on_model_save
    gather_fp16_weights_on_model_save module_granularity_threshold
    use_all_reduce_for_fetch_params allgather_sequential""")  # fmt: skip
_FSDP: Final = _keys(
    "fsdp_",
    """
    version sharding_strategy reshard_after_forward auto_wrap_policy transformer_layer_cls_to_wrap
    min_num_params backward_prefetch backward_prefetch_policy forward_prefetch offload_params
    state_dict_type cpu_ram_efficient_loading sync_module_states use_orig_params
    activation_checkpointing ignored_modules""",
)
KNOWN: Final = {
    "torchtitan": {"parallelism": _TITAN, "activation_checkpoint": _TITAN_CHECKPOINT},
    "deepspeed": {"zero_optimization": _ZERO},
    "accelerate": {"fsdp_config": _FSDP},
}
