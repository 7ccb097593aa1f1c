"""What is special about torch models; what all adapters promise is in test_contract.py."""

import copy
import logging
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

import recalibrate as rc
from recalibrate.scores import as_base, predicted_mean

# Tolerances of 1e-6: the same float32 sums of torch, in batches of another size.

torch = pytest.importorskip("torch")
nn, functional = torch.nn, torch.nn.functional

pytestmark = [pytest.mark.adapter, pytest.mark.external]

ROWS = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)


def linear(outputs=1, seed=0):
    torch.manual_seed(seed)
    return nn.Linear(4, outputs)


class Model(nn.Module):
    """A module of a user: one linear layer and whatever comes after."""

    def __init__(self, after, outputs=1):
        super().__init__()
        self.layer, self.after = linear(outputs), after
        self.unused = nn.Sigmoid()  # a part that is registered last but does nothing

    def forward(self, x):
        return self.after(self.layer(x))


def script(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.script(model)


def native(model, X=ROWS):
    with torch.no_grad():
        return model(torch.as_tensor(X)).double().numpy()


# --- what comes out -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "link"),
    [
        (nn.Sequential(linear(), nn.Sigmoid()), "identity"),
        (nn.Sequential(linear(), nn.Sequential(nn.Sigmoid(), nn.Flatten(0))), "identity"),
        (Model(lambda z: torch.sigmoid(z).squeeze(1)), "identity"),
        (Model(lambda z: z.sigmoid()[:, 0]), "identity"),
        (Model(lambda z: functional.softmax(z, dim=1), outputs=2), "identity"),
        (Model(lambda z: torch.sigmoid(z).clamp(1e-6, 1 - 1e-6)), "identity"),
        (nn.Sequential(linear(2), nn.LogSoftmax(1)), "logit"),
        (script(nn.Sequential(linear(), nn.Sigmoid(), nn.Flatten(0))), "identity"),
    ],
    ids=["module", "nested", "function", "method", "softmax", "clamp", "log", "script"],
)
def test_last_operation_tells_the_link(model, link):
    base = as_base(model)
    assert base.link == link
    mean = predicted_mean(base, ROWS)
    assert ((mean >= 0) & (mean <= 1)).all()


@pytest.mark.parametrize(
    ("model", "last"),
    [
        (linear(), "last operation is linear"),
        (Model(lambda z: z), "last operation is linear"),
        (Model(lambda z: torch.sigmoid(z) * 100), "last operation is mul"),
        (Model(lambda z: z if z.sum() > 0 else -z), "cannot be followed"),
        (script(nn.Sequential(linear(), nn.ReLU())), "cannot be seen"),
    ],
    ids=["layer", "unused sigmoid", "scaled", "control flow", "script"],
)
def test_what_cannot_be_seen_has_to_be_declared(model, last):
    with pytest.raises(ValueError, match=rf"(?s){last}.*base_link=\"logit\".*\"identity\""):
        as_base(model)
    assert as_base(model, link="logit").link == "logit"
    assert as_base(model, link="identity").link == "identity"


def test_declared_against_what_is_there():
    model = nn.Sequential(linear(), nn.Sigmoid())
    with pytest.raises(ValueError, match=r"base_link='logit' was given, but .* ends in sigmoid"):
        as_base(model, link="logit")
    assert as_base(model, link="identity").link == "identity"


def test_fit_takes_the_declaration():
    X = pd.DataFrame(ROWS, columns=list("abcd"))
    y = np.arange(40) % 2
    model = rc.fit(linear(), X, y, rc.Groups("a > 0"), base_link="logit")
    assert model.base.link == "logit"
    with pytest.raises(ValueError, match="base_link"):
        rc.fit(linear(), X, y, rc.Groups("a > 0"))


# --- shapes and classes -------------------------------------------------------------------------


def test_two_logits_are_the_log_odds_of_the_second():
    model = linear(2)
    scores = as_base(model, link="logit").scores(ROWS)
    outputs = native(model)
    # float32 outputs of two runtimes
    np.testing.assert_allclose(scores, outputs[:, 1] - outputs[:, 0], rtol=1e-5, atol=1e-6)
    other = as_base(model, link="logit", target_class=0).scores(ROWS)
    np.testing.assert_allclose(other, -scores, rtol=1e-12)


def test_many_logits_do_not_overflow():
    model = nn.Sequential(linear(5))
    with torch.no_grad():
        model[0].weight *= 500
    base = as_base(model, link="logit", target_class=3)
    outputs = torch.tensor(native(model))
    rest = torch.logsumexp(outputs[:, [0, 1, 2, 4]], dim=1)
    expected = (outputs[:, 3] - rest).numpy()
    # Logits of several hundred: differences of float32 lose three digits.
    np.testing.assert_allclose(base.scores(ROWS), expected, rtol=1e-4, atol=1e-3)
    assert base.graph() is not None


@pytest.mark.parametrize("target", [3, 7])
def test_classes_are_named_where_one_has_to_be_chosen(target):
    base = as_base(linear(3), link="logit", target_class=target)
    with pytest.raises(ValueError, match=f"classes 0 to 2.*target_class=, got {target}"):
        base.scores(ROWS)


@pytest.mark.parametrize("target", ["red", -1, 1.5])
def test_classes_are_numbers(target):
    with pytest.raises(ValueError, match="numbers of its outputs, from 0"):
        as_base(linear(3), link="logit", target_class=target)


def test_class_of_a_single_output():
    with pytest.raises(ValueError, match="one number per row"):
        as_base(linear(), link="logit", target_class=1).scores(ROWS)


def test_columns_declared_as_probabilities_must_add_up():
    with pytest.raises(ValueError, match=r"row 0 add up to .*base_link=\"logit\""):
        as_base(linear(2), link="identity").scores(ROWS)


@pytest.mark.parametrize(
    ("after", "message"),
    [
        (lambda z: (z, z), "returns tuple, not a tensor"),
        (lambda z: z.reshape(-1, 1, 1), r"shape \(40, 1, 1\) for 40 rows"),
        (lambda z: z.mean(), r"shape \(\)"),
        (lambda z: z[:3], r"shape \(3, 1\) for 40 rows"),
        (lambda z: z / 0, "missing or infinite"),
    ],
    ids=["tuple", "rank", "scalar", "rows", "infinite"],
)
def test_outputs_that_are_no_scores(after, message):
    with pytest.raises(ValueError, match=message):
        as_base(Model(after), link="identity").scores(ROWS)


# --- rows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "X",
    [
        ROWS,
        ROWS.astype(np.float64),
        torch.tensor(ROWS),
        torch.tensor(ROWS, requires_grad=True),
        torch.tensor(ROWS, dtype=torch.float64),
        pd.DataFrame(ROWS),
        pd.DataFrame(ROWS, columns=list("abcd")).astype("Float32"),
        ROWS.tolist(),
        np.asfortranarray(ROWS),
        np.broadcast_to(ROWS, ROWS.shape),
    ],
    ids=["float32", "float64", "tensor", "grad", "double tensor", "frame", "nullable", "list",
         "columns first", "read-only"],
)  # fmt: skip
def test_rows_of_any_kind(X):
    model = nn.Sequential(linear(), nn.Sigmoid())
    expected = as_base(model).scores(ROWS)
    np.testing.assert_array_equal(as_base(model).scores(X), expected)


def test_whole_numbers_are_features_in_tables_and_tokens_in_tensors():
    plain = linear()
    whole = np.arange(8).reshape(2, 4)
    scores = as_base(plain, link="logit").scores(whole)
    np.testing.assert_array_equal(scores, as_base(plain, link="logit").scores(whole.astype(float)))
    torch.manual_seed(0)
    embedding = nn.Sequential(nn.Embedding(10, 3), nn.Flatten(), nn.Linear(12, 1), nn.Sigmoid())
    tokens = torch.arange(8).reshape(2, 4)
    base = as_base(embedding)
    np.testing.assert_allclose(base.scores(tokens), native(embedding, tokens)[:, 0], rtol=1e-6)
    assert base.graph().graph.input[0].type.tensor_type.elem_type == 7  # int64


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((3, 5)), r"failed on 3 rows of shape \(5,\)"),
        (np.ones((0, 4)), "at least one row"),
        (pd.DataFrame({"a": ["x"], "b": [1], "c": [1], "d": [1]}), "'a' is numeric, but .* text"),
    ],
    ids=["width", "empty", "text"],
)
def test_rows_that_do_not_fit(X, message):
    with pytest.raises(ValueError, match=message):
        as_base(linear(), link="logit").scores(X)


def test_feature_names_choose_columns():
    model = nn.Sequential(linear(), nn.Sigmoid())
    expected = as_base(model).scores(ROWS)
    model.feature_names = ["a", "b", "c", "d"]
    base = as_base(model)
    assert base.columns() == ("a", "b", "c", "d")
    frame = pd.DataFrame(ROWS, columns=list("abcd")).assign(e="text")[["d", "e", "c", "a", "b"]]
    np.testing.assert_array_equal(base.scores(frame), expected)
    with pytest.raises(ValueError, match=r"\(2, 3\), but the torch model takes 4 columns"):
        base.scores(np.ones((2, 3)))


def test_batches_change_nothing(monkeypatch):
    base = as_base(linear(), link="logit")
    whole = base._asked.native(torch.tensor(ROWS))
    monkeypatch.setattr("recalibrate_adapters.torch.BATCH_ROWS", 7)
    np.testing.assert_allclose(base._asked.native(torch.tensor(ROWS)), whole, rtol=1e-6)


def test_images_with_a_table_for_h():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 1),
        nn.Sigmoid(),
    )  # fmt: skip
    rng = np.random.default_rng(1)
    images = torch.tensor(rng.normal(size=(1500, 1, 6, 6)), dtype=torch.float32)
    Z = pd.DataFrame({"site": rng.choice(["north", "south"], 1500)})
    p = np.where(Z["site"] == "north", 0.7, 0.3)
    y = rng.random(1500) < p
    recalibrated = rc.fit(model, images, y, rc.Groups("site"), Z=Z)
    assert abs(recalibrated.predict(images, Z=Z) - p).mean() < 0.05
    assert recalibrated.base.graph().graph.input[0].type.tensor_type.shape.dim[3].dim_value == 6


# --- left as found ------------------------------------------------------------------------------


def test_modes_gradients_and_random_numbers_are_left_alone():
    model = nn.Sequential(linear(8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 1), nn.Sigmoid())
    model.train()
    model[1].eval()
    model[3].bias.requires_grad_(False)
    model[3].weight.grad = torch.ones_like(model[3].weight)
    flags = [part.training for part in model.modules()]
    noise = torch.get_rng_state()
    as_base(model).scores(ROWS)
    assert [part.training for part in model.modules()] == flags
    assert torch.is_grad_enabled()
    assert [p.requires_grad for p in model.parameters()] == [True] * 5 + [False]
    assert (model[3].weight.grad == 1).all()
    assert torch.equal(torch.get_rng_state(), noise)


def test_modes_are_restored_when_the_model_fails():
    class Fails(nn.Module):
        def forward(self, x):
            raise RuntimeError("out of memory")

    model = nn.Sequential(nn.Dropout(), Fails()).train()
    with pytest.raises(ValueError, match="out of memory"):
        as_base(model, link="logit").scores(ROWS)
    assert all(part.training for part in model.modules())


def test_nothing_is_printed_or_logged(capfd, caplog):
    with caplog.at_level(logging.WARNING):
        base = as_base(Model(lambda z: torch.sigmoid(z) if len(z) > 0 else z), link="identity")
        base.scores(ROWS)
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


# --- graphs -------------------------------------------------------------------------------------


def test_model_whose_code_depends_on_numbers_has_no_graph_but_scores():
    model = Model(lambda z: z if z.sum() > 0 else z - 1)
    base = as_base(model, link="logit")
    expected = native(model)[:, 0]
    np.testing.assert_allclose(base.scores(ROWS), expected, rtol=1e-6)
    assert base.graph() is None
    assert "torch cannot export" in base.why_no_graph


def test_wrong_graph_is_not_used(monkeypatch):
    def wrong(model, sample):
        return right(Model(lambda z: z, outputs=1).requires_grad_(False), sample)

    from recalibrate_adapters import torch

    right = torch._export_trace
    monkeypatch.setattr(torch, "exporters", lambda model: [wrong])
    monkeypatch.setattr("recalibrate_adapters.torch.exporters", lambda model: [wrong])
    model = nn.Sequential(linear(seed=5))
    base = as_base(model, link="logit")
    np.testing.assert_allclose(base.scores(ROWS), native(model)[:, 0], rtol=1e-6)
    assert base.graph() is None
    assert "differs" in base.why_no_graph


def test_graph_is_not_known_before_rows_are():
    base = as_base(nn.Sequential(linear(), nn.Sigmoid()))
    assert base.graph() is None
    assert "no rows were scored yet" in base.why_no_graph


def test_missing_exporter_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "onnxscript", None)
    model = nn.Sequential(linear(), nn.Sigmoid()).eval()
    rows = ({0: torch.export.Dim("N")},)
    program = torch.export.export(model, (torch.zeros(2, 4),), dynamic_shapes=rows)
    base = as_base(program)
    np.testing.assert_allclose(base.scores(ROWS), native(model)[:, 0], rtol=1e-6)
    assert "recalibrate-lsboost[torch]" in base.why_no_graph


# --- programs and files -------------------------------------------------------------------------


def test_program_made_in_training_mode_is_refused():
    model = nn.Sequential(linear(), nn.Dropout(), nn.Sigmoid()).train()
    rows = ({0: torch.export.Dim("N")},)
    program = torch.export.export(model, (torch.zeros(2, 4),), dynamic_shapes=rows)
    with pytest.raises(ValueError, match=r"training mode .*dropout.*model\.eval\(\)"):
        as_base(program)


def test_program_for_one_batch_size_says_so():
    model = nn.Sequential(linear(), nn.Sigmoid()).eval()
    base = as_base(torch.export.export(model, (torch.zeros(2, 4),)))
    with pytest.raises(ValueError, match=r"failed on 40 rows"):
        base.scores(ROWS)


def test_pickled_modules_are_not_loaded(tmp_path):
    path = tmp_path / "model.pt"
    module = nn.Sequential(linear(), nn.Sigmoid())
    for saved in (module, module.state_dict()):
        for zipped in (True, False):
            torch.save(saved, path, _use_new_zipfile_serialization=zipped)
            for trust in (False, True):  # what it is comes before whether it is trusted
                with pytest.raises(ValueError, match=r"model\.pt.*file of torch\.save, a pickle"):
                    as_base(path, trust=trust)


def test_text_labels_need_the_classes_in_the_order_of_the_outputs():
    """Any order would be a guess; matrix scaling repairs the wrong one and reports a success."""
    from sklearn.metrics import log_loss

    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(1200, 2)).astype(np.float32), columns=["u", "v"])
    logits = 2 * np.column_stack([X["u"], X["v"], -X["u"] - X["v"]])
    k = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    names = ["low", "medium", "high"]
    y = np.array(names)[k]
    net = nn.Linear(2, 3)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[2.0, 0], [0, 2], [-2, -2]]))
        net.bias.zero_()
    how = {"H": rc.Groups("u"), "base_link": "logit"}
    with pytest.raises(ValueError, match=r"y holds text, 'high', 'low', 'medium'.*classes="):
        rc.fit(net, X, y, **how)
    model = rc.fit(net, X, y, classes=names, **how)
    before = float(model.summary().split("(held out)")[1].split()[0])
    p = torch.softmax(net(torch.tensor(X.to_numpy())), 1).detach().numpy()
    assert before == pytest.approx(log_loss(k, p), abs=1e-3)
    assert model.classes_.tolist() == sorted(names)
    assert log_loss(y, model.predict_proba(X)) < before + 0.01
    with pytest.raises(ValueError, match="classes="):
        rc.audit(nn.Sequential(net, nn.Softmax(1)), X, y)
    report = rc.audit(nn.Sequential(net, nn.Softmax(1)), X, y, classes=names)
    assert report.n_off == 0


def test_two_outputs_and_text_labels_need_to_be_told_which_is_which():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4)).astype(np.float32)
    net = nn.Sequential(linear(2), nn.Softmax(dim=1))
    p = net(torch.tensor(X)).detach().numpy()[:, 1]
    y = np.where(rng.random(400) < p, "high", "low")  # the second output is of "high"
    how = {"H": rc.Groups("x0 < 0"), "loop": rc.Loop(levels=1, max_rounds=1)}
    with pytest.raises(ValueError, match=r"y holds text, 'high', 'low'.*classes=.*positive="):
        rc.fit(net, X, y, **how)
    for told in ({"classes": ["low", "high"]}, {"positive": "high"}):
        model = rc.fit(net, X, y, **how, **told)
        assert "probability of 'high'" in model.summary()
        assert np.corrcoef(model.predict(X), p)[0, 1] > 0.9
        assert model.classes_.tolist() == ["high", "low"]
        np.testing.assert_array_equal(model.predict_proba(X)[:, 0], model.predict(X))


@pytest.mark.parametrize("name", ["model.pt", "model.pt2"])
def test_files_that_are_something_else(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"not a model")
    with pytest.raises(ValueError, match=f"{name}.* is not a"):
        as_base(path, trust=True)


def test_frozen_script():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        frozen = torch.jit.freeze(script(nn.Sequential(linear(), nn.Sigmoid())).eval())
    expected = as_base(nn.Sequential(linear(), nn.Sigmoid())).scores(ROWS)
    np.testing.assert_allclose(as_base(frozen).scores(ROWS), expected, rtol=1e-6)


def test_other_objects_of_torch():
    with pytest.raises(TypeError, match="SGD is not a model"):
        as_base(torch.optim.SGD(linear().parameters(), lr=0.1))


class Looked(nn.Module):
    """Embeddings of whole numbers."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 1)

    def forward(self, x):
        return torch.sigmoid(self.table(x[:, 0]))


@pytest.mark.parametrize("kind", [np.int64, np.int32])
def test_whole_numbers_stay_whole_where_the_model_wants_them(kind):
    rows = np.arange(9, dtype=kind).reshape(-1, 1)
    model = Looked().eval()
    base = as_base(model)
    with torch.no_grad():
        expected = model(torch.from_numpy(rows.astype(np.int64))).numpy().ravel()
    np.testing.assert_allclose(base.scores(rows), expected, rtol=0, atol=1e-6)  # float32
    np.testing.assert_array_equal(base.scores(pd.DataFrame(rows)), base.scores(rows))
    assert base.graph() is not None
    # A model of floats gets floats, as before.
    other = as_base(nn.Sequential(nn.Linear(1, 1), nn.Sigmoid()))
    assert other.scores(rows).shape == (9,)


def test_several_inputs_and_more_columns_are_refused_with_advice():
    base = as_base(nn.Sequential(nn.Linear(1, 1), nn.Sigmoid()))
    with pytest.raises(ValueError, match=r"tuple of 2 arrays.*Pass a function"):
        base.scores((np.zeros((3, 1)), np.zeros((3, 2))))
    for more in (pd.DataFrame({"a": [1.0], "b": [2.0]}), pd.DataFrame({"a": [1.0], "b": ["x"]})):
        with pytest.raises(ValueError, match=r"model\.feature_names = "):
            base.scores(more)


def test_a_class_of_several_by_the_labels_themselves():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 2)).astype(np.float32), rng.integers(0, 3, 600)
    model = nn.Sequential(nn.Linear(2, 3), nn.Softmax(1))
    both = [
        rc.fit(model, X, labels, target_class=2, H=rc.Groups("x0 < 0"), loop=rc.Loop(levels=1))
        for labels in (y, y == 2)
    ]
    np.testing.assert_array_equal(both[0].predict(X), both[1].predict(X))


@pytest.mark.parametrize("named", [False, True])
def test_positive_chooses_the_first_of_two_outputs(named):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 2)).astype(np.float32), rng.integers(0, 2, 600)
    labels, first = (np.array(["well", "sick"])[y], "well") if named else (y, 0)
    more = {"classes": ["well", "sick"]} if named else {}
    net = nn.Sequential(nn.Linear(2, 2), nn.Softmax(1))
    options = {"H": rc.Groups("x0 < 0"), "loop": rc.Loop(levels=1)}
    model = rc.fit(net, X, labels, positive=first, **more, **options)
    assert model.labels.classes[1] == first
    expected = net(torch.tensor(X)).detach().numpy()[:, 0]
    np.testing.assert_allclose(model.base.scores(X), expected, atol=1e-6)  # float32 outputs
    one = nn.Sequential(nn.Linear(2, 1), nn.Sigmoid())
    with pytest.raises(ValueError, match=r"one number per row.*\(or positive\) out"):
        rc.fit(one, X, labels, positive=first, **more, **options)


def as_program(model):
    rows = {0: torch.export.Dim("N")}
    return torch.export.export(model.eval(), (torch.zeros(2, 4),), dynamic_shapes=(rows,))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of TorchScript as a whole
@pytest.mark.parametrize("form", [lambda model: model, script, as_program], ids=["", "jit", "pt2"])
def test_bases_can_be_sent_to_other_processes(form):
    base = as_base(form(nn.Sequential(linear(), nn.Sigmoid())))
    expected = base.scores(ROWS), base._asked.native(base._read(ROWS))
    for again in (pickle.loads(pickle.dumps(base)), copy.deepcopy(base)):  # noqa: S301 - our own
        np.testing.assert_array_equal(again.scores(ROWS), expected[0])
        np.testing.assert_array_equal(again._asked.native(again._read(ROWS)), expected[1])
