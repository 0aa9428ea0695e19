"""Starting the command as processes. Standard library alone."""
import os
import subprocess

import command

MPIRUN = [os.environ.get("SAMEBITS_MPIRUN", "mpirun"), "--oversubscribe", "--allow-run-as-root", "--bind-to", "none"]
# Shared memory alone, and the processor given away by those that wait: the tests have fewer cores than ranks.
ENVIRONMENT = {"OMPI_MCA_btl": "self,vader", "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
               "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_orte_abort_on_non_zero_status": "1"}


def start(*groups, **environment):
    """The processes of (how many, arguments) groups, one world; ranks count on through the groups. `environment` is added to ours."""
    line = list(MPIRUN)
    for number, (count, arguments) in enumerate(groups):
        line += [":"] * (number > 0) + ["-np", str(count), command.COMMAND, *map(str, arguments)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **ENVIRONMENT, **environment})


def finish(process, timeout=120):
    """(exit code, stdout, the command's own lines on stderr); mpirun adds lines of its own."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, out, [line for line in err.splitlines() if line.startswith("samebits: ")]


def run(*groups, timeout=120, **environment):
    return finish(start(*groups, **environment), timeout)
