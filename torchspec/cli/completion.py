"""Shell completion scripts, made from the argument parser, so that they cannot fall behind it."""

from __future__ import annotations

import argparse

from torchspec.cli.parser import build_parser


def _commands() -> dict[str, tuple[str, list[str]]]:
    """command -> (help, its options and fixed words)"""
    found: dict[str, tuple[str, list[str]]] = {}
    for action in build_parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, sub in action.choices.items():
                words = [option for a in sub._actions for option in a.option_strings if option.startswith("--")]
                words += [str(c) for a in sub._actions if not a.option_strings and a.choices for c in a.choices]
                found[name] = (helps.get(name, ""), words)
    return found


def script(shell: str) -> str:
    """A completion script for bash, zsh or fish."""
    commands = _commands()
    if shell == "fish":
        lines = [
            f"complete -c torchspec -n __fish_use_subcommand -a {name} -d '{about}'"
            for name, (about, _) in commands.items()
        ]
        lines += [
            f"complete -c torchspec -n '__fish_seen_subcommand_from {name}' "
            + (f"-l {word[2:]}" if word.startswith("--") else f"-a {word}")
            for name, (_, words) in commands.items()
            for word in words
        ]
        return "\n".join(lines)
    cases = "\n".join(f"        {name}) words={' '.join(words)!r} ;;" for name, (_, words) in commands.items())
    body = f"""_torchspec() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words='{" ".join(commands)}'
    else
        case ${{COMP_WORDS[1]}} in
{cases}
        esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current"; compgen -f -- "$current")
}}
complete -o filenames -F _torchspec torchspec"""
    return (
        body
        if shell == "bash"
        else "autoload -U +X bashcompinit && bashcompinit\n"
        + body.replace(
            'mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current"; compgen -f -- "$current")',
            'COMPREPLY=($(compgen -W "$words" -- "$current") $(compgen -f -- "$current"))',
        )
    )
