#!/usr/bin/env python3
"""Goal: what `./dev new policy NAME` writes is a policy: once declared and listed as it says, it compiles
without a warning, is formatted, is under 50 lines, and passes the contract suite as written.
Method: ./dev in a copy of the tree, the two lines it asks for added, all policies and the suite compiled
as one program.
"""
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COPIED = (".clang-format", "dev", "cmake/policy_lines.cmake", "tools/new_policy.cc.txt", "include", "src/core",
          "src/policies", "test/policies", "test/support")
NAME, SPEC = "probe_of_the_tool", "probe-of-the-tool"
FLAGS = ("-std=c++20", "-O0", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror",
         "-Wno-missing-field-initializers", "-Iinclude", "-Isrc", "-Itest")


class NewPolicyTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="quire-policy-")
        self.addCleanup(holder.cleanup)
        self.tree = pathlib.Path(holder.name)
        for name in COPIED:
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, self.tree / name)

    def run_in_tree(self, *command):
        return subprocess.run(command, cwd=self.tree, capture_output=True, text=True, check=False)

    def must_run(self, *command) -> str:
        done = self.run_in_tree(*command)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def edit(self, name: str, before: str, after: str):
        path = self.tree / name
        text = path.read_text()
        self.assertIn(before, text)
        path.write_text(text.replace(before, after, 1))

    def test_the_skeleton_passes_the_contract_suite(self):
        said = self.must_run("./dev", "new", "policy", NAME)
        declaration = re.search(r"policies\.h +declare +(.+;)", said)[1]
        entry = re.search(r"list\.cc +add +(.+,)", said)[1]
        self.edit("src/policies/policies.h", "PolicyKind full();\n", f"PolicyKind full();\n{declaration}\n")
        self.edit("src/policies/list.cc", "std::vector<PolicyKind> all = {", f"std::vector<PolicyKind> all = {{{entry}")
        written = self.tree / "src" / "policies" / f"{NAME}.cc"
        self.must_run("clang-format", "--dry-run", "-Werror", str(written))

        self.must_run("cmake", f"-DSOURCE_DIR={self.tree}", f"-DOUTPUT={self.tree}/lines.cc", "-P",
                      "cmake/policy_lines.cmake")
        lines = re.search(rf'"{NAME}", (\d+)', (self.tree / "lines.cc").read_text())[1]
        self.assertLess(int(lines), 50)
        sources = [*sorted((self.tree / "src" / "policies").glob("*.cc")), self.tree / "lines.cc",
                   *(self.tree / "src" / "core" / f"{name}.cc" for name in ("check", "status")),
                   self.tree / "test" / "policies" / "contract_test.cc"]
        (self.tree / "all.cc").write_text("".join(f'#include "{source}"\n' for source in sources))
        self.must_run("g++", *FLAGS, "all.cc", "-lgtest", "-lgtest_main", "-o", "suite")
        ran = self.must_run("./suite", f"--gtest_filter=*/{NAME}")
        self.assertGreaterEqual(ran.count("OK ] All/PolicyContract"), 7, ran)
        self.assertNotIn("FAILED", ran)

    def test_it_refuses_names_that_are_taken_or_none(self):
        taken = self.run_in_tree("./dev", "new", "policy", "knorm")
        self.assertEqual(taken.returncode, 1)
        self.assertIn("src/policies/knorm.cc is there already", taken.stderr)
        for name in ("", "KNorm", "my-policy", "2norm", "../knorm"):
            self.assertNotEqual(self.run_in_tree("./dev", "new", "policy", name).returncode, 0, name)
        self.assertNotEqual(self.run_in_tree("./dev", "new", "kernel", "knorm").returncode, 0)


if __name__ == "__main__":
    unittest.main()
