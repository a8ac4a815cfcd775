"""The rules of the house that a compiler does not see, each a function from files to complaints.

A file is a pair (path from the root, text). A complaint is a line "path:line: what is wrong".
"""

import re

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)
HEADER = re.compile(r"\.(h|cuh)$")


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def without_comments_and_texts(text):
    """Same length and lines: comments, string literals and characters are blanks."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


# ---- who may include whom ----

def read_table(architecture):
    """The table of docs/architecture.md, section 2: {room: set of the rooms it names}, and the set of deciding rooms."""
    section = re.search(r"^## 2\..*?(?=^## 3\.)", architecture, re.MULTILINE | re.DOTALL).group()
    names, deciding, block = {}, set(), ""
    for line in section.splitlines():
        heading = re.match(r"    (decides|executes|programs)", line)
        if heading:
            block = heading.group(1)
        row = re.match(r"    src/((?:\w+/)+)(?:, src/((?:\w+/)+))?\s+(.*)", line)
        if not row:
            continue
        columns = re.split(r"\s{2,}", row.group(3).strip())
        used = columns[1] if len(columns) > 1 else ""
        for folder in filter(None, row.groups()[:2]):
            names[folder.rstrip("/")] = used
            if block == "decides":
                deciding.add(folder.rstrip("/"))
    table = {}
    for room, used in names.items():
        if used == "everything":
            table[room] = set(names)
        else:
            expanded = used.replace("deciding rooms", " ".join(sorted(deciding)))
            table[room] = set(re.findall(r"\w+", expanded))
            unknown = table[room] - set(names)
            if unknown:
                raise ValueError(f"docs/architecture.md: src/{room}/ names {', '.join(sorted(unknown))}, which are no rooms")
    return table, deciding | {"app"}


def closure(table, room):
    """What the room may include: base and config, itself, what it names, and what these name."""
    if room in ("base", "config"):
        return {"base", room}
    reached, open_rooms = {"base", "config"}, [room]
    while open_rooms:
        current = open_rooms.pop()
        if current not in reached:
            reached.add(current)
            open_rooms.extend(table[current])
    return reached


def room_of(path, table):
    """"src/comm/gloo/x.h" -> "comm/gloo" where the table has it, else "comm"; folders inside a room belong to it."""
    parts = path.split("/")
    if len(parts) < 3 or parts[0] != "src":
        return None
    nested = "/".join(parts[1:3])
    return nested if nested in table else parts[1]


def include_table(files, table):
    complaints = []
    for path, text in files:
        room = room_of(path, table)
        if room is None:
            continue
        if room not in table:
            complaints.append(f"{path}:1: src/{room}/ is no room of the table in docs/architecture.md")
            continue
        allowed = closure(table, room)
        for include in INCLUDE.finditer(text):
            other = room_of("src/" + include.group(1), table)
            if other in table and other not in allowed:
                complaints.append(f"{path}:{line_of(text, include.start())}: {room} may not include {include.group(1)}: "
                                  f"it may use {', '.join(sorted(allowed - {room}))}")
    return complaints


def link_table(files, table):
    """weft_room(... USES ...) names nothing that the table does not give."""
    complaints = []
    for path, text in files:
        for call in re.finditer(r"^\s*weft_room\((\w+)([^)]*)\)", text, re.MULTILINE):
            room = room_of(path, table)
            used = re.search(r"\bUSES((?:\s+[a-z_]+)*)", call.group(2))
            if room not in table or call.group(1) != room.replace("/", "_"):
                complaints.append(f"{path}:{line_of(text, call.start())}: {call.group(1)} is no room of the table, or not this folder's")
                continue
            for other in used.group(1).split() if used else []:
                other = other.replace("_", "/")
                if other in table and other not in closure(table, room):
                    complaints.append(f"{path}:{line_of(text, call.start())}: {room} may not link {other}")
    return complaints


# ---- foreign headers ----

def libtorch_headers(files, table, deciding):
    complaints = []
    for path, text in files:
        for include in INCLUDE.finditer(text):
            name, place = include.group(1), f"{path}:{line_of(text, include.start())}"
            if not re.match(r"(ATen|c10|torch)/", name):
                continue
            if name == "torch/torch.h":
                complaints.append(f"{place}: torch/torch.h costs 18 s a file; include the header of what is used")
            elif room_of(path, table) in deciding:
                complaints.append(f"{place}: {name} in a deciding room")
            elif HEADER.search(path) and name != "ATen/core/Tensor.h":
                complaints.append(f"{place}: {name} in a header; headers of ours include ATen/core/Tensor.h only")
    return complaints


# Each costs seconds a file. base/json.h is the one place that includes JSON, and is itself for sources.
SOURCES_ONLY = re.compile(r"(toml\+\+/|toml\.hpp|CLI/|spdlog/|httplib|nlohmann/json\.hpp|base/json\.h$)")


def heavy_headers(files):
    return [f"{path}:{line_of(text, include.start())}: {include.group(1)} in a header"
            for path, text in files if HEADER.search(path) and path != "src/base/json.h"
            for include in INCLUDE.finditer(text) if SOURCES_ONLY.match(include.group(1))]


# ---- symbols ----

# (what it is, pattern, paths where it is allowed)
BANNED = [
    ("a default random generator", r"\b(at|torch)::manual_seed\b|\bstd::(default_random_engine|random_device)\b"
     r"|\b(s?rand|rand_r|[dlm]rand48)\s*\((?=\s*\))|\bsrand\s*\(", r"^$"),
    ("a generator with a state", r"\bstd::(mt19937(_64)?|minstd_rand0?|ranlux\w+|knuth_b)\b", r"_test\.cpp$|^tests/"),
    ("an operator that draws from LibTorch's generator",
     r"\b(at|torch)::(rand|randn|randint|randperm|normal|bernoulli|multinomial|dropout)(_like|_out)?\s*\("
     r"|(\.|->)(normal_|uniform_|bernoulli_|random_|exponential_|cauchy_|geometric_|log_normal_)\s*\(", r"^$"),
    ("process-wide state, which only the engine's start sets (weft sets the environment that it hands to the engine)",
     r"\bat::(set_num_threads|set_num_interop_threads|globalContext)\b|\bset_default_dtype\b|\bomp_set_\w+\s*\(|\bmkl_serv_cbwr_set\b"
     r"|\b(setenv|putenv|unsetenv)\s*\(", r"^src/kernel/process\.cpp$|^src/engine/|^src/app/engine\.cpp$|_test\.cpp$"),
    ("thread-local state", r"\bthread_local\b", r"_test\.cpp$"),
]


def banned_symbols(files):
    complaints = []
    for path, text in files:
        code = without_comments_and_texts(text)
        for what, pattern, allowed in BANNED:
            if re.search(allowed, path):
                continue
            for found in re.finditer(pattern, code):
                complaints.append(f"{path}:{line_of(code, found.start())}: {found.group().strip()}: {what}")
    return complaints


# ---- names and sizes ----

LONGEST_FILE = 500  # lines; the house's aim is 400


def names_and_sizes(files):
    complaints = []
    for path, text in files:
        if re.search(r"(^|[/_])(utils?|helpers?|common|managers?|misc)([_./]|$)", path):
            complaints.append(f"{path}:1: a name that says nothing about what is inside")
        lines = text.count("\n")
        if lines > LONGEST_FILE and not text.startswith("// Generated"):
            complaints.append(f"{path}:{lines}: more than {LONGEST_FILE} lines: a file holds one idea")
    return complaints


# ---- ./weft and the table of commands ----

def engine_commands(launcher, command_table):
    """The commands that ./weft builds the engine for are those that the table gives to it, by their first word."""
    listed = set(re.search(r'^engine_commands="([^"]*)"', launcher, re.MULTILINE).group(1).split())
    definitions = re.split(r"^CommandDefinition ", command_table, flags=re.MULTILINE)[1:]
    engine, program = set(), set()
    for definition in definitions:
        word = re.search(r'\.name = "(\S+?)[ "]', definition).group(1)
        (engine if "Where::kEngine" in definition else program).add(word)
    complaints = [f"weft:1: `{word}` runs in weft-engine, but engine_commands lacks it" for word in sorted(engine - listed)]
    complaints += [f"weft:1: engine_commands has `{word}`, which does not run in weft-engine" for word in sorted(listed - engine)]
    return complaints
