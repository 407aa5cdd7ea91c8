"""Names of kernels as they occur in traces of several vendors."""

import pytest

from syncwall.explain.traces.activity import activity_kind
from syncwall.read.trace import collective_kind, dtype_bytes, is_communication


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("volta_sgemm_128x32_nt", "GEMM"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128>", "GEMM"),
        ("nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NNT", "GEMM"),
        ("Cijk_Ailk_Bljk_BBS_BH_MT128x128x32_MI16x16x16x1_SN", "GEMM"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "GEMM"),
        ("aten::addmm", "GEMM"),
        (
            "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128>>",
            "attention",
        ),
        ("fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::Kernel)", "attention"),
        ("aten::scaled_dot_product_attention", "attention"),
        ("void cudnn::cnn::wgrad2d_grouped_direct_kernel<float>", "convolution"),
        ("sm80_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc", "convolution"),
        ("aten::mkldnn_convolution", "convolution"),
        (
            "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::Tensor",
            "optimizer",
        ),
        ("Optimizer.step#AdamW.step", "optimizer"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>",
            "elementwise",
        ),
        ("triton_poi_fused_add_cos_sin_0", "elementwise"),
        ("triton_red_fused__to_copy_native_layer_norm_3", "elementwise"),
        ("void fbgemm_gpu::permute_2D_data_kernel<false, int>", "elementwise"),
        ("aten::relu_", "elementwise"),
        ("Memcpy HtoD (Pinned -> Device)", "copy"),
        ("__amd_rocclr_copyBuffer", "copy"),
        (
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)",
            "communication",
        ),
        ("void dpsk::ep::internode::combine<false, 8, __nv_bfloat16>", "communication"),
        ("void something_nobody_knows<int>", "other kernels"),
    ],
)
def test_kinds(name, kind):
    assert activity_kind(name) == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)", "all-reduce"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_SIMPLE", "reduce-scatter"),
        ("_allgather_base", "all-gather"),
        ("gloo:all_reduce", "all-reduce"),
        ("all_to_allv", "all-to-all"),
        ("ncclKernel_SendRecv_RING", "send-receive"),
        ("nccl:send 0->1", "send-receive"),
        ("c10d::broadcast_", "broadcast"),
        ("dpsk::ep::internode::dispatch<false>", "all-to-all"),
        ("reduce", "other"),
    ],
)
def test_collectives(name, kind):
    assert collective_kind(name) == kind


def test_what_is_no_communication():
    for name in ("void at::native::reduce_kernel<512, 1>", "aten::gather", "nccl_like_gemm_no"[4:]):
        assert not is_communication(name)


def test_widths():
    assert [dtype_bytes(n) for n in ("Float", "c10::BFloat16", "Long", "Float8_e4m3fn", "?")] == [
        4,
        2,
        8,
        1,
        None,
    ]
