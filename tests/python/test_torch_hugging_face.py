"""Hugging Face models whose MLPs are the block: replaced and restored, forward and backward, invariant over batches."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch_support import require_equal  # noqa: E402

import samebits  # noqa: E402
import samebits.torch  # noqa: E402

SIZES = dict(
    hidden_size=64, intermediate_size=176, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=131,
    max_position_embeddings=64, attn_implementation="eager",
)  # fmt: skip
FAMILIES = ["Qwen3", "Qwen2", "Llama", "Mistral"]


def model_of(family="Qwen3", **more):
    torch.manual_seed(1)
    configuration = getattr(transformers, f"{family}Config")(**{**SIZES, **more})
    return getattr(transformers, f"{family}ForCausalLM")(configuration).bfloat16().eval()


def token_ids(batch=2, length=11):
    return torch.randint(0, 131, (batch, length), generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("family", FAMILIES)
def test_outputs_and_gradients_move_by_rounding_alone(family):
    model, ids = model_of(family), token_ids()
    stock = model(ids, labels=ids)
    stock.loss.backward()
    gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad(set_to_none=True)

    names = samebits.torch.replace_mlp(model)
    assert names == ["model.layers.0.mlp", "model.layers.1.mlp"]
    replaced = model(ids, labels=ids)
    replaced.loss.backward()
    assert torch.allclose(replaced.logits.float(), stock.logits.float(), rtol=2**-6, atol=2**-7)
    for name, parameter in model.named_parameters():
        difference = (parameter.grad.float() - gradients[name].float()).norm()
        assert difference <= 0.02 * gradients[name].float().norm() + 1e-6, name


def test_every_mlp_is_invariant_on_its_recorded_input():
    model, ids = model_of(), token_ids(3, 10)
    samebits.torch.replace_mlp(model, "sm90-v1")
    recorded = {}
    for name, module in model.named_modules():
        if isinstance(module, samebits.torch.ContractMLP):
            module.register_forward_hook(lambda module, inputs, output, name=name: recorded.update({name: (module, inputs[0], output)}))
    model(ids)
    assert len(recorded) == 2
    for name, (module, x, y) in recorded.items():
        rows, expected = x.detach().reshape(-1, 64), y.detach().reshape(-1, 64)
        for batch in (1, 2, 7, 30):
            parts = [module(part) for part in rows.split(batch)]
            require_equal(f"{name} in batches of {batch}", torch.cat(parts), expected)


def test_checkpointing_moves_no_bit():
    gradients = []
    for checkpointing in (False, True):
        model = model_of()
        samebits.torch.replace_mlp(model, "sm90-v1")
        model.train()
        if checkpointing:
            model.gradient_checkpointing_enable()
        model(token_ids(), labels=token_ids()).loss.backward()
        gradients.append([weight.grad for weight in model.model.layers[0].mlp.parameters()])
    for plain, recomputed in zip(*gradients):
        require_equal("a weight's gradient", recomputed, plain)


def test_modules_stay_what_they_are():
    model = model_of()
    stock, kind = model(token_ids()).logits, type(model.model.layers[0].mlp)
    module, weights = model.model.layers[0].mlp, list(model.model.layers[0].mlp.parameters())
    state = {name: value.clone() for name, value in model.state_dict().items()}
    samebits.torch.replace_mlp(model, "f32-tree-v1")
    assert model.model.layers[0].mlp is module and isinstance(module, kind)
    assert all(a is b for a, b in zip(module.parameters(), weights))
    model.load_state_dict(state)
    samebits.torch.replace_mlp(model, "sm90-v1", recompute=True)  # again: another contract
    assert module.contract == "sm90-v1" and module.recompute
    assert samebits.torch.restore_mlp(model) == ["model.layers.0.mlp", "model.layers.1.mlp"]
    assert type(module) is kind and "contract" not in module.__dict__
    require_equal("logits", model(token_ids()).logits.view(-1, 131), stock.view(-1, 131))


def test_state_dict_of_hugging_face_loads():
    mlp = model_of().model.layers[0].mlp
    ours = samebits.torch.Qwen3MLP(transformers.Qwen3Config(**SIZES), contract="sm90-v1").bfloat16()
    assert list(ours.state_dict()) == list(mlp.state_dict())
    ours.load_state_dict(mlp.state_dict())
    x = torch.randn(5, 64, generator=torch.Generator().manual_seed(3)).bfloat16()
    weights = [mlp.gate_proj.weight, mlp.up_proj.weight, mlp.down_proj.weight]
    require_equal("y", ours(x), samebits.torch.ffn(x, *weights, "sm90-v1"))


def test_compiled_mlp_of_a_model():
    model = model_of()
    samebits.torch.replace_mlp(model, "sm90-v1")
    mlp = model.model.layers[1].mlp
    x = torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(3)).bfloat16()
    require_equal("y", torch.compile(mlp, fullgraph=True)(x).view(10, 64), mlp(x).view(10, 64))


def test_refusals_leave_the_model_alone():
    with pytest.raises(ValueError, match="no MLP to replace in Linear"):
        samebits.torch.replace_mlp(torch.nn.Linear(2, 2))
    with pytest.raises(
        ValueError, match="^nothing was replaced: model.layers.0.mlp: gate_proj has a bias, and the block has none \\(and 5 more\\)$"
    ):
        samebits.torch.replace_mlp(model_of("Llama", mlp_bias=True))
    with pytest.raises(ValueError, match="its activation is .*GELU"):
        samebits.torch.replace_mlp(model_of(hidden_act="gelu"))
    with pytest.raises(ValueError, match="no such contract"):
        samebits.torch.replace_mlp(model_of(), "hf")

    class Adapter(torch.nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base_layer, self.weight = base, base.weight

    model = model_of()
    last = model.model.layers[1].mlp
    kind, last.down_proj = type(last), Adapter(last.down_proj)
    with pytest.raises(ValueError, match="model.layers.1.mlp: down_proj is a .*Adapter, not a plain torch.nn.Linear"):
        samebits.torch.replace_mlp(model)
    assert type(model.model.layers[0].mlp) is kind

    model = model_of()
    samebits.torch.replace_mlp(model)
    layer = model.model.layers[0].mlp
    layer.up_proj = Adapter(layer.up_proj)  # put on afterwards
    with pytest.raises(ValueError, match="up_proj is a .*Adapter"):
        model(token_ids())


def test_other_classes_by_name():
    class Mine(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.gate_proj, self.up_proj = torch.nn.Linear(16, 24, bias=False), torch.nn.Linear(16, 24, bias=False)
            self.down_proj, self.act_fn = torch.nn.Linear(24, 16, bias=False), torch.nn.SiLU()

    model = torch.nn.Sequential(Mine()).bfloat16()
    with pytest.raises(ValueError, match="no MLP to replace"):
        samebits.torch.replace_mlp(model)
    assert samebits.torch.replace_mlp(model, "sm90-v1", classes=[Mine]) == ["0"]
    x = torch.ones(3, 16, dtype=torch.bfloat16)
    mlp = model[0]
    require_equal("y", model(x), samebits.torch.ffn(x, mlp.gate_proj.weight, mlp.up_proj.weight, mlp.down_proj.weight, "sm90-v1"))
