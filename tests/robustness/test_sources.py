"""What the sources do not do: unpickle, evaluate text, unpack archives to the disk, use a shell."""

from __future__ import annotations

import ast
from pathlib import Path

import legs

ROOT = Path(legs.__file__).parent
FORBIDDEN = {
    *("pickle.load", "pickle.loads", "pickle.Unpickler", "cPickle.load", "dill.load", "dill.loads"),
    *("cloudpickle.load", "cloudpickle.loads", "joblib.load", "marshal.loads", "shelve.open"),
    *("torch.load", "torch.jit.load", "torch.hub.load", "pd.read_pickle", "pandas.read_pickle"),
    *("yaml.load", "yaml.unsafe_load", "eval", "exec", "compile", "__import__", "os.system"),
    *("os.popen", "shutil.unpack_archive", "nx.read_gpickle"),
}
# Methods, whatever they belong to: of tar and zip archives, and of Unpicklers.
FORBIDDEN_METHODS = {"extractall", "extract", "read_pickle", "persistent_load"}
IMPORTS = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "yaml"}


def name_of(node: ast.expr) -> str:
    """A called function as it is written, such as ``torch.load``."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([*([node.id] if isinstance(node, ast.Name) else ["?"]), *reversed(parts)])


def faults(text: str) -> list[str]:
    """Calls and imports in some source that have no place here."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.split(".")[0] in IMPORTS]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in IMPORTS:
            found.append(node.module)
        elif isinstance(node, ast.Call):
            name = name_of(node.func)
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            if name in FORBIDDEN or (name.rpartition(".")[2] in FORBIDDEN_METHODS and "." in name):
                found.append(name)
            if name in ("np.load", "numpy.load"):
                allowed = given.get("allow_pickle")
                if not isinstance(allowed, ast.Constant) or allowed.value is not False:
                    found.append(f"{name} without allow_pickle=False")
            if isinstance(given.get("shell"), ast.Constant) and given["shell"].value:
                found.append(f"{name} with a shell")
    return found


def test_the_search_finds_what_it_looks_for():
    bad = (
        *("import pickle", "from yaml import load", "torch.load('x')", "np.load('x')", "eval('1')"),
        *("np.load('x', allow_pickle=True)", "tar.extractall()", "subprocess.run('x', shell=True)"),
    )
    for text in bad:
        assert faults(text), text
    good = ("np.load('x', allow_pickle=False)", "module.eval()", "re.compile('x')", "json.load(f)")
    for text in good:
        assert not faults(text), text


def test_no_load_path_unpickles_or_evaluates():
    files = sorted(ROOT.rglob("*.py"))
    assert len(files) > 100
    found = {
        str(file.relative_to(ROOT)): wrong
        for file in files
        if (wrong := faults(file.read_text(encoding="utf-8")))
    }
    assert found == {}
