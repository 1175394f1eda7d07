"""Starts a job, injects faults, restarts the job if its driver was killed, and reports the result."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Sequence

import psutil

from rheos.ops.chaos.plan import Fault, Plan, Report, Strike
from rheos.ops.chaos.processes import (
    JobProcesses,
    children_take_interrupts,
    describe,
    ended_meanwhile,
)
from rheos.ops.chaos.struck_servers import StruckServer

_LOOK_EVERY_S = 0.1
_SETTLED_S = 1.0
"""Seconds for which the workers must stay the same: those of a starting job appear one by one."""
_FEWER_SETTLED_S = 15.0
"""Seconds after which a job with fewer workers than before is assumed to continue with them."""
_HASTY = 0.2
"""Share of strikes that follow early on another."""
_LEAVE_WITHIN_S = 30.0
"""Maximum time until a job's processes are gone after the job has ended."""

Log = Callable[[str], object]


def run(plan: Plan, log: Log = lambda line: None) -> Report:
    """Run the job to its end, or cancel it after `for_s`. Whatever happens, leave no process: continue
    frozen ones, and end those that outlive the job."""
    runner = _Runner(plan, log)
    try:
        runner.run()
    finally:
        runner.clean_up()
    return runner.report


class _Runner:
    def __init__(self, plan: Plan, log: Log) -> None:
        self._plan = plan
        self._log = log
        self._rng = random.Random(plan.seed)
        self._processes = JobProcesses()
        self._began = time.monotonic()
        self._job = self._start()
        self._slots = 0
        """Number of slots that the job has."""
        self._seen: tuple[list[psutil.Process], float] = ([], 0.0)
        """Workers in the job's slots, and the time since which they are the same."""
        self._frozen: dict[psutil.Process, float] = {}
        """The frozen processes, and the time at which each continues."""
        self._servers: dict[StruckServer, float] = {}
        """The servers and links with a fault, and the time at which it ends."""
        self._waiting: Strike | None = None
        """Strike from which the job has not recovered yet."""
        self._hasty = False
        """Whether the next strike does not wait until the job runs again."""
        self._up_at = 0.0
        """Time since when the job runs."""
        self._progress = 0
        """Progress of the job at the last strike."""
        self.report = Report(drivers=1)

    def run(self) -> None:
        plan = self._plan
        if not self._wait_for(lambda: self._settled(_SETTLED_S) and self._got_on(), plan.patience_s):
            return self._never_ran()
        self._slots = len(self._seen[0])
        self._say(f"the job runs in {self._slots} slots")
        plan.runs()
        first = self._elapsed_s()
        due = first + plan.kill_every_s
        while not self._has_ended():
            over = plan.for_s is not None and self._elapsed_s() >= first + plan.for_s
            if (
                over
                and not self._frozen
                and not self._servers
                and self._waiting is None
                and plan.drained()
            ):
                return self._cancel()
            if not self._hasty:
                due = max(due, self._up_at + plan.kill_every_s)
            down = self._waiting is not None
            over = over or len(self.report.strikes) == plan.strikes
            if not over and self._elapsed_s() >= due and (not down or self._hasty) and self._strike():
                # Sometimes a strike occurs while the job still recovers from the previous one.
                self._hasty = not self._hasty and self._rng.random() < _HASTY
                hurry = self._rng.random() if self._hasty else 1.0
                due = self._elapsed_s() + hurry * plan.kill_every_s
            stuck = self._waiting is not None and (
                self._elapsed_s() - self._waiting.at_s - self._waiting.frozen_s > plan.patience_s
            )
            if stuck:
                self.report.failure = f"it did not recover {self._in_time()}"
                return
            self._pause()

    # --- observation ------------------------------------------------------------------------------

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began

    def _say(self, what: str) -> None:
        self._log(f"{self._elapsed_s():8.1f} s  {what}")

    def _pause(self) -> None:
        time.sleep(_LOOK_EVERY_S)
        self._processes.look()
        for process, until in list(self._frozen.items()):
            if self._elapsed_s() >= until:
                self._thaw(process)
        for server, until in list(self._servers.items()):
            if self._elapsed_s() >= until:
                self._heal(server)
        if self._waiting is not None and not self._servers and self._running():
            self._waiting.back_after_s = self._elapsed_s() - self._waiting.at_s
            self._say(f"job recovered, {self._waiting.back_after_s:.1f} s after the fault")
            self._waiting = None
            self._up_at = self._elapsed_s()

    def _running(self) -> bool:
        """Return whether all slots are filled, or as many as those with which the job continues."""
        settled = self._settled(_FEWER_SETTLED_S)
        return (len(self._seen[0]) >= self._slots or settled) and self._got_on()

    def _got_on(self) -> bool:
        """Return whether the job has made durable progress since the last strike. A strike destroys
        progress after the newest checkpoint, so a job might never end if strikes depended on time
        alone."""
        return self._plan.progress is None or self._plan.progress(self._job.pid) > self._progress

    def _settled(self, seconds: float) -> bool:
        """Return whether the job has workers, and they have been the same for `seconds`."""
        self._processes.look()
        slots = [process for process in self._processes.slots() if process not in self._frozen]
        if slots != self._seen[0]:
            self._seen = (slots, self._elapsed_s())
        return bool(slots) and self._elapsed_s() - self._seen[1] >= seconds

    def _wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self._job.poll() is None:
            if condition():
                return True
            time.sleep(_LOOK_EVERY_S)
        return False

    def _has_ended(self) -> bool:
        """Return whether the driver has ended by itself."""
        code = self._job.poll()
        if code is None:
            return False
        if code != 0 and self.report.drivers > 1 and self._plan.finished():
            # The strike occurred when the job had finished and its driver had not exited yet. The next
            # driver reports that.
            self._say("the job had finished before the fault of its driver")
            code = 0
        self.report.exit_code = code
        if code != 0:
            self.report.failure = f"its driver ended with code {code}"
        return True

    def _never_ran(self) -> None:
        if self._has_ended():
            return  # It has ended, successfully or not, before a worker was seen.
        self.report.failure = f"it did not start {self._in_time()}"

    def _in_time(self) -> str:
        within = f"within {self._plan.patience_s:.0f} s"
        if self._plan.progress is None or not self._seen[0]:
            return within
        return f"{within}: it has workers, but completed no checkpoint"

    # --- strikes ----------------------------------------------------------------------------------

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "TTY_COMPATIBLE": "0", **self._plan.env}
        with children_take_interrupts():
            job = subprocess.Popen(self._plan.command, env=environment, start_new_session=True)
        with ended_meanwhile():
            self._processes.add(job.pid)
        return job

    def _strike(self) -> bool:
        """Strike, and return whether there was a victim. A victim that is already down is left
        alone."""
        victims = {fault: self._victims(fault) for fault in sorted(self._plan.faults)}
        possible = [fault for fault, found in victims.items() if found]
        if not possible:
            return False
        fault = self._rng.choice(possible)
        victim = self._rng.choice(victims[fault])
        name = str(victim.pid) if isinstance(victim, psutil.Process) else victim.name
        if self._plan.progress is not None:
            self._progress = max(self._progress, self._plan.progress(self._job.pid))
        strike = Strike(fault, self._elapsed_s(), name)
        with ended_meanwhile():
            self._carry_out(strike, victim)
            self.report.strikes.append(strike)
            self._waiting = strike
            return True
        return False

    def _victims(self, fault: Fault) -> Sequence[psutil.Process | StruckServer]:
        match fault:
            case Fault.WORKERS | Fault.FREEZE:
                return [process for process in self._processes.slots() if process not in self._frozen]
            case Fault.EXECUTORS:
                return self._processes.executors()
            case Fault.DRIVER:
                return [psutil.Process(self._job.pid)] if self._job.poll() is None else []
            case Fault.SERVER:
                return [server for server in self._plan.servers if server not in self._servers]
            case _:
                assert fault.of_link, fault
                return [link for link in self._plan.links if link not in self._servers]

    def _carry_out(self, strike: Strike, victim: psutil.Process | StruckServer) -> None:
        if isinstance(victim, StruckServer):
            self._strike_server(strike, victim)
            return
        match strike.fault:
            case Fault.WORKERS:
                victim.kill()
                self._say(f"SIGKILL  worker {victim.pid}")
            case Fault.FREEZE:
                strike.frozen_s = self._freeze_s()
                victim.suspend()
                self._frozen[victim] = strike.at_s + strike.frozen_s
                self._say(f"SIGSTOP  worker {victim.pid}, for {strike.frozen_s:.1f} s")
            case Fault.EXECUTORS:
                victim.kill()
                self._say(f"SIGKILL  executor {victim.pid}")
            case Fault.DRIVER:
                jvms = [jvm for jvm in self._processes.jvms() if jvm.ppid() == victim.pid]
                for process in (victim, *jvms):
                    process.kill()
                self._job.wait()
                self._say(f"SIGKILL  driver {victim.pid}")
                time.sleep(self._plan.driver_back_after_s)
                self._job = self._start()
                self.report.drivers += 1
                self._say(f"started  driver {self._job.pid}")

    def _strike_server(self, strike: Strike, server: StruckServer) -> None:
        strike.frozen_s = self._freeze_s()
        server.strike(strike.fault)
        self._servers[server] = strike.at_s + strike.frozen_s
        self._say(f"{strike.fault}  {server.name}, for {strike.frozen_s:.1f} s")

    def _freeze_s(self) -> float:
        longest = self._plan.freeze_s
        short = self._rng.uniform(0.01, 0.1) * longest
        return short if self._rng.random() < 0.5 else longest

    def _heal(self, server: StruckServer) -> None:
        del self._servers[server]
        server.heal()
        if self._plan.progress is not None:
            # Progress during the fault does not prove that the job can reach the server again.
            self._progress = max(self._progress, self._plan.progress(self._job.pid))
        self._say(f"over     {server.name}")

    def _thaw(self, process: psutil.Process) -> None:
        del self._frozen[process]
        with ended_meanwhile():
            process.resume()
            self._say(f"SIGCONT  worker {process.pid}")

    # --- the end ----------------------------------------------------------------------------------

    def _cancel(self) -> None:
        """Cancel the job as Ctrl-C does."""
        self._job.send_signal(signal.SIGINT)
        try:
            self.report.exit_code = self._job.wait(_LEAVE_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.report.failure = f"it did not stop within {_LEAVE_WITHIN_S:.0f} s of SIGINT"
            return
        if self.report.exit_code not in (0, -signal.SIGINT, 128 + signal.SIGINT):
            self.report.failure = f"its driver ended with code {self.report.exit_code} when cancelled"

    def clean_up(self) -> None:
        for process in list(self._frozen):
            self._thaw(process)
        for server in list(self._servers):
            self._heal(server)
        if self._job.poll() is None:
            self._job.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._job.wait(_LEAVE_WITHIN_S)
        deadline = time.monotonic() + _LEAVE_WITHIN_S
        self._processes.look()
        while self._processes.alive() and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)
            self._processes.look()
        for process in self._processes.alive():
            with ended_meanwhile():
                self.report.left_behind.append(describe(process))
                process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._job.wait(1.0)
        self.report.ran_s = self._elapsed_s()
