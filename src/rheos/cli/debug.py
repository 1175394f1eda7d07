"""`rheos debug`: local replay of one key of a job, step by step."""

from __future__ import annotations

import cmd
import contextlib
import inspect
import pdb
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TextIO

from rheos.cli.debug_text import (
    debugged_object,
    ending,
    heading,
    key_text,
    printed,
    state_lines,
    step_lines,
    step_object,
)
from rheos.cli.terminal import FAILED, report, say
from rheos.cli.why_not import key_columns
from rheos.core.errors import ConfigurationError
from rheos.ops.debugging.call_watcher import ReplayStoppedError, WatchedCall
from rheos.ops.debugging.debugging import Debugged, debug
from rheos.ops.debugging.key_replay import DebugStep, ReplayListener
from rheos.ops.debugging.key_state import KeyState

# --- the prompt ---------------------------------------------------------------------------------------


_PLACES_OF_OURS = ["rheos", "rheos.*"]


class _RestartReplay(BaseException):
    """Exception that begins the replay again. The program's code does not see it."""


class DebugShell(cmd.Cmd, ReplayListener):
    """Shell of the debugger. With `commands`, the shell reads these instead of a terminal. After the
    last command, the replay runs to its end."""

    def __init__(self, debugged: Debugged, commands: TextIO | None = None) -> None:
        super().__init__(stdin=commands)
        self.use_rawinput = commands is None
        self.prompt = "(rheos) " if commands is None else ""
        self._streams: dict[str, Any] = {}
        """Streams for pdb, if pdb does not use the terminal either."""
        if commands is not None:
            self._streams = {"stdin": commands, "stdout": sys.stdout}
        self._debugged = debugged
        self._goes_on: Callable[[DebugStep], bool] = lambda _: False
        """Whether to continue after a step without a prompt."""
        self._state = debugged.state
        self._done: list[DebugStep] = []
        """Steps replayed so far."""
        self._silent_to = 0
        """Step up to which the shell replays again without output or prompts."""
        self._into = False
        """Whether to debug the next call from its first line."""
        self._traced = sys.gettrace()
        """Trace function that is restored after such a call."""

    def run(self) -> int:
        """Run the shell; return the exit code."""
        self._say(*heading(self._debugged), 'help or ? lists the commands; "step" is the first')
        while True:
            self._done = []
            self._state = self._debugged.state
            try:
                if not self._debugged.calls and not self._silent_to:
                    self._ask()
                for _ in self._debugged.steps(self):
                    pass
                self._end()
            except _RestartReplay:
                continue
            except ReplayStoppedError:
                pass
            finally:
                sys.settrace(self._traced)
            return FAILED if self._done and self._done[-1].error is not None else 0

    def _end(self) -> None:
        self._say(*ending(self._debugged), "no steps remain: use state, back or quit")
        self._ask()

    # --- calls during the replay
    # ------------------------------------------------------------------------

    def before(self, call: WatchedCall, state: KeyState) -> None:
        self._state = state
        number = len(self._done) + 1
        if number > self._silent_to and (not self._done or not self._goes_on(self._done[-1])):
            what = "a timer" if call.port is None else f"the row {call.record!r}"
            self._say(f"next: step {number}, {call.method.__name__} for {what}")
            self._ask()
        if self._into:
            self._into = False
            sys.settrace(self._entering(inspect.unwrap(call.method).__code__))

    def _entering(self, code: CodeType) -> Callable[[FrameType, str, Any], Any]:
        """Return a trace function that starts the debugger when the function is entered. A generator is
        entered only when its first row is requested."""
        debugger = pdb.Pdb(skip=_PLACES_OF_OURS, nosigint=True, **self._streams)

        def trace(frame: FrameType, event: str, arg: Any) -> Any:
            if frame.f_code is not code:
                return None
            debugger.reset()
            sys.settrace(debugger.trace_dispatch)
            return debugger.trace_dispatch(frame, event, arg)

        return trace

    def after(self, step: DebugStep) -> None:
        sys.settrace(self._traced)
        self._done.append(step)
        self._state = step.after
        if step.number > self._silent_to:
            self._say(*step_lines(step, self._debugged.inputs))
        asks = not self._debugged.calls and step.number >= self._silent_to
        if asks and not self._goes_on(step):
            self._ask()

    def _ask(self) -> None:
        self._goes_on = lambda _: False
        self.cmdloop()

    def _say(self, *lines: str) -> None:
        for line in lines:
            say(line)

    # --- commands ---------------------------------------------------------------------------------

    def do_step(self, arg: str) -> bool:
        """step [N]: run the next row or timer, or the next N."""
        count = int(arg) if arg.isdigit() else 1
        last = len(self._done) + count
        self._goes_on = lambda step: step.number < last
        return True

    do_s = do_next = do_n = do_step

    def do_continue(self, _: str) -> bool:
        """continue: run up to the next step that emits a row."""
        first = len(self._done)
        self._goes_on = lambda step: step.number == first or not step.out
        return True

    do_c = do_continue

    def do_run(self, _: str) -> bool:
        """run: run to the end."""
        self._goes_on = lambda _: True
        return True

    do_r = do_run

    def do_break(self, _: str) -> bool:
        """break: start pdb at the first line of the function, for the next row or timer."""
        if not self._debugged.calls:
            self._say("the program has no function that is called for each row")
            return False
        self._into = True
        return self.do_step("")

    do_b = do_break

    def do_state(self, _: str) -> None:
        """state: show the state of the key."""
        self._say(key_text(self._debugged), *state_lines(self._state))

    def do_last(self, _: str) -> None:
        """last: show the last step again."""
        if self._done:
            self._say(*step_lines(self._done[-1], self._debugged.inputs))

    def do_back(self, arg: str) -> bool:
        """back [N]: go back one step, or N. The function is called again for the steps before."""
        self._silent_to = max(len(self._done) - (int(arg) if arg.isdigit() else 1), 0)
        raise _RestartReplay

    def do_pm(self, _: str) -> None:
        """pm: start pdb where the function has failed."""
        error = self._done[-1].error if self._done else None
        if error is None or error.__cause__ is None:
            self._say("nothing has failed")
        else:
            debugger = pdb.Pdb(**self._streams)
            debugger.reset()
            debugger.interaction(None, error.__cause__.__traceback__)

    def do_quit(self, _: str) -> bool:
        """quit: end the replay. The job was not affected."""
        raise ReplayStoppedError

    do_q = do_exit = do_quit

    def do_EOF(self, _: str) -> bool:  # noqa: N802 - cmd.Cmd calls it so
        """End of the commands."""
        if self.use_rawinput:
            raise ReplayStoppedError
        return self.do_run("")


# --- the command --------------------------------------------------------------------------------------


def debug_job(
    job: str,
    *,
    key: str,
    operator: str | None,
    from_: str,
    until: str | None,
    against: Path | None,
    checkpoint_dir: str | None,
    script: Path | None,
    trace: bool,
    as_json: bool,
) -> int:
    """Prompt for commands at a terminal; otherwise print each step. Return the exit code: 1 if the
    program failed."""
    try:
        debugged = debug(
            job,
            key_columns(key),
            operator=operator,
            from_checkpoint=checkpoint_number(from_, "--from"),
            until=None if until is None else checkpoint_number(until, "--until"),
            against=against,
            checkpoint_dir=checkpoint_dir,
        )
        if as_json:
            return _print_json(debugged)
        if script is not None:
            with script.open() as commands:
                return DebugShell(debugged, commands).run()
        if sys.stdin.isatty() and not trace:
            return DebugShell(debugged).run()
        return _print(debugged)
    except (Exception, KeyboardInterrupt) as error:
        return report(error)


def checkpoint_number(text: str, option: str) -> int | None:
    """Return the number of a checkpoint; None for the newest. Raise ConfigurationError."""
    if text == "latest":
        return None
    try:
        return int(text)
    except ValueError:
        raise ConfigurationError(
            f"{option} {text!r} is not a checkpoint",
            hint='pass its number, as `rheos checkpoints` shows it, or "latest"',
        ) from None


def _print(debugged: Debugged) -> int:
    for line in heading(debugged):
        say(line)
    failed = False
    for step in debugged:
        failed |= step.error is not None
        for line in step_lines(step, debugged.inputs):
            say(line)
    for line in ending(debugged):
        say(line)
    return FAILED if failed else 0


def _print_json(debugged: Debugged) -> int:
    # Output of the program's functions is not part of the JSON.
    with contextlib.redirect_stdout(sys.stderr):
        steps = [step_object(step) for step in debugged]
    print(printed(debugged_object(debugged, steps)))
    return FAILED if any(step["error"] for step in steps) else 0
