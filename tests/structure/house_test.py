#!/usr/bin/env python3
"""The tree keeps the rules of house.py, and each rule turns red on a small tree that breaks it. Run from the repository's root."""

import pathlib
import unittest

import house

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE, DECIDING = house.read_table((ROOT / "docs/architecture.md").read_text())


def read(*patterns):
    paths = sorted({path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()})
    return [(str(path.relative_to(ROOT)), path.read_text(errors="replace")) for path in paths]


CODE = read("src/**/*.h", "src/**/*.cpp", "src/**/*.cu", "src/**/*.cuh")


class Tree(unittest.TestCase):
    def none(self, complaints):
        if complaints:
            self.fail("\n" + "\n".join(complaints))

    def test_the_tree_was_found(self):
        self.assertGreater(len(CODE), 50)
        self.assertLessEqual({"base", "data", "schedule", "nn", "train", "engine"}, set(TABLE))

    def test_includes_keep_to_the_table(self):
        self.none(house.include_table(CODE, TABLE))

    def test_links_keep_to_the_table(self):
        self.none(house.link_table(read("src/*/CMakeLists.txt", "src/*/*/CMakeLists.txt"), TABLE))

    def test_libtorch_headers(self):
        self.none(house.libtorch_headers(CODE, TABLE, DECIDING))

    def test_heavy_headers(self):
        self.none(house.heavy_headers(CODE))

    def test_banned_symbols(self):
        self.none(house.banned_symbols(CODE + read("tests/**/*.cpp")))

    def test_names_and_sizes(self):
        self.none(house.names_and_sizes(CODE))

    def test_the_launcher_knows_the_engines_commands(self):
        self.none(house.engine_commands((ROOT / "weft").read_text(), (ROOT / "src/app/command_table.cpp").read_text()))


class Rules(unittest.TestCase):
    """Each rule on a tree that breaks it, and on the nearest one that does not."""

    ARCHITECTURE = """## 2. The house

    decides and prepares: no LibTorch header
    src/base/        errors
    src/config/      typed tree
    src/model/       what a model is
    src/mesh/        topology
    src/comm/        bytes                              mesh
    executes: LibTorch
    src/comm/gloo/, src/comm/nccl/   back ends          comm
    src/nn/          computations                       model
    programs
    src/app/         commands                           deciding rooms
    src/engine/      bodies                             everything

## 3. Types
"""

    def setUp(self):
        self.table, self.deciding = house.read_table(self.ARCHITECTURE)

    def includes(self, path, *names):
        return house.include_table([(path, "".join(f'#include "{name}"\n' for name in names))], self.table)

    def test_table(self):
        self.assertEqual(self.table["comm/nccl"], {"comm"})
        self.assertEqual(self.deciding, {"base", "config", "model", "mesh", "comm", "app"})
        with self.assertRaises(ValueError):
            house.read_table(self.ARCHITECTURE.replace("                       model", "                       modell"))

    def test_include_table(self):
        self.assertEqual(self.includes("src/nn/linear.cpp", "nn/linear.h", "model/nodes.h", "base/error.h", "config/node.h"), [])
        self.assertEqual(self.includes("src/comm/gloo/group.cpp", "comm/bytes.h", "mesh/spec.h", "comm/gloo/group.h"), [])
        self.assertEqual(self.includes("src/engine/main.cpp", "nn/linear.h", "comm/gloo/group.h"), [])
        self.assertEqual(len(self.includes("src/nn/linear.cpp", "mesh/spec.h")), 1)
        self.assertEqual(len(self.includes("src/comm/bytes.cpp", "comm/gloo/group.h")), 1)
        self.assertEqual(len(self.includes("src/base/error.cpp", "config/node.h")), 1)
        self.assertEqual(len(self.includes("src/app/main.cpp", "nn/linear.h")), 1)
        self.assertEqual(len(self.includes("src/extra/extra.cpp", "base/error.h")), 1)

    def test_link_table(self):
        self.assertEqual(house.link_table([("src/nn/CMakeLists.txt", "weft_room(nn TORCH USES model LIBRARIES fmt::fmt)")], self.table), [])
        self.assertEqual(len(house.link_table([("src/nn/CMakeLists.txt", "weft_room(nn TORCH USES model mesh)")], self.table)), 1)
        self.assertEqual(house.link_table([("src/comm/gloo/CMakeLists.txt", "weft_room(comm_gloo TORCH USES comm)")], self.table), [])
        self.assertEqual(len(house.link_table([("src/comm/CMakeLists.txt", "weft_room(comm USES mesh comm_gloo)")], self.table)), 1)

    def libtorch(self, path, name):
        return len(house.libtorch_headers([(path, f"#include <{name}>\n")], self.table, self.deciding))

    def test_libtorch_headers(self):
        self.assertEqual(self.libtorch("src/nn/linear.h", "ATen/core/Tensor.h"), 0)
        self.assertEqual(self.libtorch("src/nn/linear.cpp", "ATen/ATen.h"), 0)
        self.assertEqual(self.libtorch("src/comm/gloo/group.cpp", "torch/csrc/distributed/c10d/ProcessGroupGloo.hpp"), 0)
        self.assertEqual(self.libtorch("src/nn/linear.h", "ATen/ATen.h"), 1)
        self.assertEqual(self.libtorch("src/nn/linear.cpp", "torch/torch.h"), 1)
        self.assertEqual(self.libtorch("src/model/nodes.cpp", "c10/util/Half.h"), 1)
        self.assertEqual(self.libtorch("src/app/main.cpp", "ATen/core/Tensor.h"), 1)

    def test_heavy_headers(self):
        for name in ("toml++/toml.h", "CLI/CLI.hpp", "spdlog/spdlog.h", "nlohmann/json.hpp", "base/json.h", "httplib.h"):
            self.assertEqual(len(house.heavy_headers([("src/model/nodes.h", f"#include <{name}>\n")])), 1, name)
            self.assertEqual(house.heavy_headers([("src/model/nodes.cpp", f"#include <{name}>\n")]), [], name)
        self.assertEqual(house.heavy_headers([("src/model/nodes.h", '#include "base/json_fwd.h"\n')]), [])

    def test_banned_symbols(self):
        for code in ("at::manual_seed(1);", "x = rand();", "srand(time(0));", "std::mt19937 g(1);", "std::random_device d;",
                     "at::randn({2});", "at::dropout(x, 0.1, true);", "x.normal_(0, 1);", "at::set_num_threads(2);",
                     'setenv("A", "b", 1);', "thread_local int x;", "mkl_serv_cbwr_set(1);"):
            self.assertEqual(len(house.banned_symbols([("src/nn/linear.cpp", code)])), 1, code)
        for code in ("// rand() is not used", 'say("std::mt19937");', "weft::random(key, 3);", "operand(x);", "is_normal_(x);",
                     "at::get_num_threads();"):
            self.assertEqual(house.banned_symbols([("src/nn/linear.cpp", code)]), [], code)
        self.assertEqual(house.banned_symbols([("src/nn/linear_test.cpp", "std::mt19937 g(1);")]), [])
        self.assertEqual(house.banned_symbols([("src/kernel/process.cpp", "at::set_num_threads(2);")]), [])

    def test_names_and_sizes(self):
        self.assertEqual(len(house.names_and_sizes([("src/nn/utils.cpp", "")])), 1)
        self.assertEqual(len(house.names_and_sizes([("src/nn/tensor_helpers.h", "")])), 1)
        self.assertEqual(len(house.names_and_sizes([("src/nn/linear.cpp", "\n" * 501)])), 1)
        self.assertEqual(house.names_and_sizes([("src/nn/commonwealth.cpp", "\n" * 500)]), [])

    def test_engine_commands(self):
        table = ('CommandDefinition a() { return {.name = "train", .where = Where::kEngine}; }\n'
                 'CommandDefinition b() { return {.name = "checkpoint list"}; }\n')
        self.assertEqual(house.engine_commands('engine_commands=" train "', table), [])
        self.assertEqual(len(house.engine_commands('engine_commands=" "', table)), 1)
        self.assertEqual(len(house.engine_commands('engine_commands=" train checkpoint "', table)), 1)


if __name__ == "__main__":
    unittest.main()
