"""`forage completion`: print a shell's completion of the command line. Loads no JAX.

The shell's function calls `forage completion --line "typed text"`, which prints a candidate a line, each with a tab and
its meaning.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from forage.cli.arguments import FLAGS, LISTS, named_options, nothing_left
from forage.config import options, registry
from forage.config.help import declared
from forage.config.options import PORTS, hyphens
from forage.core.errors import ForageError, nearest

HELP = """\
forage completion SHELL

Prints a script that lets bash, zsh or fish complete commands, agents, parts, environments, runs and options.

  --line TEXT            print the completions of this text instead; used by the shells

Examples
  echo 'source <(forage completion bash)' >> ~/.bashrc
  echo 'source <(forage completion zsh)' >> ~/.zshrc
  forage completion fish > ~/.config/fish/completions/forage.fish
"""

BASH = r"""# Bash cuts words at a colon, so what stands before one in the last word is left out of the answers.
_forage() {
    local line=${COMP_LINE:0:COMP_POINT} cut= name meaning
    local word=${line##*[[:space:]]}
    [[ $COMP_WORDBREAKS == *:* && $word == *:* ]] && cut=${word%"${word##*:}"}
    COMPREPLY=()
    while IFS=$'\t' read -r name meaning; do
        COMPREPLY+=("${name#"$cut"}")
    done < <(forage completion --line "$line" 2>/dev/null)
}
complete -o bashdefault -o default -F _forage forage
"""

ZSH = r"""#compdef forage
_forage() {
    local -a found
    local name meaning
    while IFS=$'\t' read -r name meaning; do
        found+=("${name//:/\\:}:$meaning")
    done < <(forage completion --line "${(j: :)words[1,CURRENT]}" 2>/dev/null)
    if (( $#found )); then _describe forage found; else _files; fi
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
compdef _forage forage
"""

FISH = r"""function __forage
    set -l found (forage completion --line "$(commandline -cp)" 2>/dev/null)
    if count $found >/dev/null
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c forage -f -a '(__forage)'
"""

SHELLS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
OF_RUNS = ("resume", "evaluate", "watch", "chat", "compare", "report", "export")


def run(positional: list[str], words: options.Words) -> None:
    """Run `forage completion`."""
    line = words.pop("line", None)
    nothing_left(words, "completion", ["line"])
    if line is not None:
        print(*(f"{name}\t{meaning}" for name, meaning in candidates(str(line)).items()), sep="\n")
        return
    if len(positional) != 1:
        raise ForageError("forage completion takes one shell, bash, zsh or fish: forage completion bash.")
    if positional[0] not in SHELLS:
        raise ForageError(f"Unknown shell {positional[0]!r}{nearest(positional[0], SHELLS)}")
    print(SHELLS[positional[0]], end="")


def candidates(line: str) -> dict[str, str]:
    """Return the completions of the last word of a line, each with its meaning; none if the line is invalid."""
    from forage.cli import entry

    typed = line.split()
    current = typed.pop() if typed and not line[-1].isspace() else ""
    if len(typed) < 2:
        found = {name: first_line(name) for name in entry.COMMANDS} if typed else {}
    elif typed[1] in entry.COMMANDS:
        try:
            found = completions_after(typed[1], typed[2:], current)
        except ForageError:
            found = {}
    else:
        found = {}
    return {name: meaning for name, meaning in found.items() if name.startswith(current)}


def first_line(command: str) -> str:
    """Return the meaning of a command, from the first line of its module."""
    from forage.cli import entry

    text = entry.command_module(command).__doc__ or ""
    return text.partition(": ")[2].partition(".")[0].replace("\n", " ")


def completions_after(command: str, typed: list[str], current: str) -> dict[str, str]:
    """Return the completions after a command and the words typed so far."""
    from forage.cli import entry

    own = named_options(entry.command_module(command).HELP)
    if typed and typed[-1].startswith("--") and "=" not in typed[-1]:
        name = typed[-1][2:]
        if hyphens(name) not in FLAGS:
            return values(name, own.get(name, ("", ""))[0], current)
    positional, words = options.split(typed, FLAGS, LISTS)
    if not current.startswith("-"):
        return places(command, positional, current)
    found = {f"--{name}": meaning for name, (_, meaning) in own.items()}
    if command in ("train", "tune"):
        found |= training_options(positional, words)
    return found | {"--help": "explain the command"}


def values(name: str, shown: str, current: str) -> dict[str, str]:
    """Return the values of an option: the parts of a port, wrappers, or the alternatives in its help."""
    if name in registry.PORTS:
        return summaries(registry.parts(name), current)
    if name in ("wrap", "under"):
        return summaries(registry.WRAPPERS, current)
    return {word.strip(): "" for word in shown.split("|")} if "|" in shown else {}


def places(command: str, positional: list[str], current: str) -> dict[str, str]:
    """Return the completions of a command's positional argument."""
    from forage.cli.list import KINDS
    from forage.studies import claims

    number = len(positional)
    if command == "chat" and number:
        return environments()
    if command in OF_RUNS:
        return {str(path.parent): "" for path in sorted(Path("runs").glob("*/config.json"))}
    if command in ("train", "tune"):
        agents = summaries(registry.parts("agent"), current) if number == 0 else {}
        takes = number == 1 and registry.target_of("agent", positional[0]) is not None
        takes = takes or (command, number) == ("train", 0)
        return agents | (environments() if takes else {})
    if command == "show":
        tables = (*registry.tables().values(), registry.WRAPPERS)
        found = [summaries(table, current) for table in tables]
        return {name: meaning for one in found for name, meaning in one.items()} | environments()
    fixed: dict[str, Iterable[str]] = {"list": KINDS, "claim": claims.names(), "completion": SHELLS}
    fixed |= {"data": ("record", "convert")}
    return dict.fromkeys(fixed.get(command, ()), "") if number == 0 else {}


def summaries(table: dict[str, str], begins: str) -> dict[str, str]:
    """Return the sentence of every part of a table whose name begins so, by name; each is read from a file."""
    asked = {name: target for name, target in table.items() if name.startswith(begins)}
    return {name: declared.summary(target) + registry.package_words(target) for name, target in asked.items()}


def environments() -> dict[str, str]:
    """Return every native environment, and an example of each other suite, by name."""
    from forage.environments.catalogue import NATIVE, SUITES

    native = {name: entry.description for name, entry in NATIVE.items()}
    return native | {f"{prefix}:{suite.example}": suite.description for prefix, suite in SUITES.items()}


def training_options(positional: list[str], words: options.Words) -> dict[str, str]:
    """Return the options of the typed agent, environment and parts."""
    from forage.environments.catalogue import NATIVE

    named = [("agent", "", name) for name in positional[:1]]
    named += [(port, f"{port}.", str(words[port])) for port in PORTS if port in words]
    found = [(prefix, target) for port, prefix, name in named if (target := registry.target_of(port, name))]
    found += [("env.", f"forage.environments.{NATIVE[name].target}") for name in positional if name in NATIVE]
    result = {f"--{port}": "a part for that port" for port in PORTS}
    for prefix, target in found:
        result |= {f"--{prefix}{hyphens(name)}": meaning for name, meaning in declared.meanings(target).items()}
    return result
