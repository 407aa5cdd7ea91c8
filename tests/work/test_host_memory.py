"""What offloading moves to the memory of the host."""

import pytest

import syncwall as sw

PARAMETERS = 8_030_261_248
"""Of Llama 3.1 8B."""


def predicted(**layout):
    asked = {"shard": "fsdp", "recompute": "full", "micro_batch": 1, **layout}
    run = sw.Run(model="llama-3.1-8b", cluster="dgx-h100", nodes=1, layout=sw.Layout(**asked))
    return sw.predict(run)


def test_nothing_is_on_the_host_of_a_run_that_offloads_nothing():
    assert predicted().host_memory_bytes == 0.0


@pytest.mark.parametrize(
    ("offloaded", "bytes_a_parameter"),
    [
        (("offload_optimizer",), 12),
        (("offload_optimizer", "offload_gradients"), 16),
        (("offload_optimizer", "offload_gradients", "offload_weights"), 18),
    ],
)
def test_states_of_adam_are_16_bytes_a_parameter_as_deepspeed_counts_them(offloaded, bytes_a_parameter):
    found = predicted(**dict.fromkeys(offloaded, True))
    assert found.host_memory_bytes == pytest.approx(bytes_a_parameter * PARAMETERS, rel=1e-3)


def test_activations_that_wait_there_count():
    without, moved = (predicted(recompute="none", offload_layers=count) for count in (0, 8))
    left = without.memory.activations - moved.memory.activations
    assert moved.host_memory_bytes == pytest.approx(8 * left)


def test_half_a_node_needs_half_of_it():
    layout = sw.Layout(shard="fsdp", offload_optimizer=True, shard_degree=4)
    runs = [
        sw.Run(
            model="llama-3.1-8b",
            cluster=sw.cluster("dgx-h100", nodes=1, gpus_per_node=gpus),
            layout=layout,
        )
        for gpus in (4, 8)
    ]
    half, whole = (sw.predict(run).host_memory_bytes for run in runs)
    assert whole == pytest.approx(2 * half)
