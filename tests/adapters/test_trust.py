"""Model files that can run code are opened only where the user trusts them."""

import json
import pickle
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

import recalibrate as rc
from recalibrate.bases.protocol import as_base
from recalibrate.commands import main
from recalibrate.files import ModelFileError

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.adapter, pytest.mark.external]

REFUSED = r"'base\.{}' could run any code.*trust=True \(on the command line --trust\)"
ROWS = np.random.default_rng(0).normal(size=(300, 2)).astype(np.float32)
LABELS = np.random.default_rng(1).random(300) < 0.5


class Touch:
    """Pickled, a program that makes a file."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return Path.touch, (self.trace,)


def harmful_program(folder):
    """An exported program whose first weight is a pickle."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Sigmoid()).eval()
    rows = {0: torch.export.Dim("N")}
    plain = folder / "plain.pt2"
    exported = torch.export.export(model, (torch.zeros(2, 2),), dynamic_shapes=(rows,))
    torch.export.save(exported, plain)
    path, trace = folder / "base.pt2", folder / "trace"
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(path, "w") as target:
        for entry in source.infolist():
            content = source.read(entry)
            if entry.filename.endswith("model_weights_config.json"):
                config = json.loads(content)
                config["config"]["0.weight"]["use_pickle"] = True
                content = json.dumps(config).encode()
            elif entry.filename.endswith("weight_0"):
                content = pickle.dumps(Touch(trace))
            target.writestr(entry.filename, content)
    return path, trace


class Module(torch.nn.Module):
    """Fails while it is opened, as a sign that its code runs."""

    def forward(self, x):
        return torch.sigmoid(x.sum(1))

    @torch.jit.export
    def __getstate__(self):
        return 1.5, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[float, bool]):
        self.training = state[1]
        assert state[0] < 1.0, "the file's own code ran"


def harmful_script(folder):
    path = folder / "base.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(Module()).save(str(path))
    return path


def test_a_program_that_holds_a_pickle(tmp_path):
    path, trace = harmful_program(tmp_path)
    with pytest.raises(ModelFileError, match=REFUSED.format("pt2")):
        as_base(path)
    with pytest.raises(ModelFileError, match=REFUSED.format("pt2")):
        rc.fit(path, ROWS, LABELS)
    assert not trace.exists()
    with pytest.raises(ModelFileError, match="not a file of torch"):
        as_base(path, trust=True)
    assert trace.exists()  # torch runs what the file says: the refusal is not in vain


def test_a_script_with_code_for_opening(tmp_path):
    path = harmful_script(tmp_path)
    with pytest.raises(ModelFileError, match=REFUSED.format("pt")):
        as_base(path)
    with pytest.raises(ModelFileError, match="not a TorchScript file") as caught:
        as_base(path, trust=True)
    assert "the file's own code ran" in str(caught.value.__cause__)


@pytest.fixture
def referring(tmp_path):
    """A saved model beside the program that it refers to."""
    module = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Sigmoid())
    path = tmp_path / "base.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(module).save(str(path))
    model = rc.fit(path, ROWS, LABELS, H=rc.Linear(), trust=True)
    with pytest.raises(ModelFileError, match=REFUSED.format("pt")):
        model.save(tmp_path / "model.rcal", base=path)
    model.save(tmp_path / "model.rcal", base=path, trust=True)
    return model, tmp_path / "model.rcal", path


def test_a_saved_model_does_not_open_what_is_not_trusted(referring):
    model, saved, path = referring
    expected = model.predict(ROWS)
    with pytest.raises(ModelFileError, match=REFUSED.format("pt")):
        rc.load(saved).predict(ROWS)
    with pytest.raises(ModelFileError, match=REFUSED.format("pt")):
        rc.load(saved, base=path)
    np.testing.assert_array_equal(rc.load(saved, trust=True).predict(ROWS), expected)
    np.testing.assert_array_equal(rc.load(saved, base=path, trust=True).predict(ROWS), expected)


def test_trust_is_not_kept_in_files(referring, tmp_path):
    _, saved, _ = referring
    rc.load(saved, trust=True).save(tmp_path / "again.rcal")
    with pytest.raises(ModelFileError, match=REFUSED.format("pt")):
        rc.load(tmp_path / "again.rcal").predict(ROWS)
    with pytest.raises(ValueError, match="trust must be True or False, got 'yes'"):
        rc.load(saved, trust="yes")


def test_commands(referring, tmp_path, capsys):
    _, saved, path = referring
    rows = tmp_path / "rows.csv"
    np.savetxt(rows, np.c_[ROWS, LABELS], fmt="%.6g", delimiter=",", header="a,b,y", comments="")
    fit = ["fit", str(rows), "--label", "y", "--model", str(path), "--model-columns", "a,b"]
    fit += ["--H", "linear", "-o", str(tmp_path / "new.rcal")]
    assert main(fit) == 2
    assert "--trust" in capsys.readouterr().err
    assert main([*fit, "--trust"]) == 0
    new = tmp_path / "new.csv"
    new.write_text("a,b\n0.5,-1\n")
    predict = ["predict", str(new), "--model", str(saved), "-o", str(tmp_path / "out.csv")]
    assert main(predict) == 2
    assert "could run any code" in capsys.readouterr().err
    assert main([*predict, "--trust"]) == 0
