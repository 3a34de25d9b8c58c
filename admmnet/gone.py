"""Commands, flags, keys and values that were there before, and what to do instead (docs/changelog.md)."""

from itertools import product

_ROWS = {
    "launch": "start again by the same command, with --resume auto: a service manager, Slurm's --requeue, or a loop",
    "adopt": "start the agent again by the same command: the relay gives it the end",
    "rotate|revoke": "make a new network with `admmnet network init`: folders of earlier runs still verify",
    "sign": "ssh-keygen -Y sign -n admmnet -f KEY manifest.json",
    "key": "ssh-keygen makes keys: ssh-keygen -Y sign -n admmnet -f KEY manifest.json",
    "show": "`admmnet data check NAME|FILE`, or `admmnet data check --run DIR`",
    "--header-only": "name the kinds of columns, numeric = [...] and categorical = [...] in the schema",
    "clean": "declare decimal, thousands and missing in the schema: `admmnet data check` names the cells that remain",
    "rehearse": "a run checks its method before it connects; try it with `admmnet run --simulate --rounds 3`",
    "--no-cache": "leave it out: sets are read from their files every time",
    "--restarts|--alive": "start again by the same command, with --resume auto",
    "--checkpoint-every": "leave it out: a run without a seed keeps a journal, one with a seed is begun again",
    "--delay|--straggle": "no method waits for a clock: multiply the rounds of metrics.csv by a delay",
    "--drop-burst": "--drop loses messages one by one",
    "--gate-radius": "the gates ask the gradient at a point, not a ball around it",
    "--aggregate": "`far_from_others` of summary.json names far vectors: leave their agents out of the next run",
    "evaluate|predict --config|--schema|--features|--no-intercept|--positive": (
        "new rows are read as those of the run; give their columns the names that they had there"
    ),
    "--data skin|ijcnn1|covtype|rcv1|phishing:uci": "name its file, which is read as any other",
    "run|agent --quorum|--strikes|--regroup-deadline": "give it to `admmnet relay`",
    "audit gossip": "a test holds the theorem, and `admmnet ledger network RUN` tells what a run's messages say",
    "--answer gossip": "--answer average gives every agent the exact mean",
    "--bug": "the tests plant bugs, and audits find them: tests/auditing/test_mechanisms.py",
    "--linger": "the relay keeps the end of a run, and gives it to agents that come later",
    "--give-up": "an agent waits for the relay, and for others after a fault, for an hour",
    "--plain": "lines to the relay are always encrypted",
    "--receipts": "take hosts of their own: an agent keeps the words of others (`admmnet agent`)",
    "--hosts|--port": "give the relay's address: --relay HOST:PORT; all agents dial it",
    "network --plot": "`admmnet ledger network RUN --json` has every pair with its distance",
    "reproduce --simulate": "leave it out: sets of the data folder count as public",
    "--ipums-brazil": "put the extract into the data folder, as DIR/ipums/brazil.csv",
    "--ipums-us": "put the extract into the data folder, as DIR/ipums/us.csv",
}
GONE = {
    " ".join(one): instead
    for words, instead in _ROWS.items()
    for one in product(*(part.split("|") for part in words.split()))
}


def gone_key(key: str) -> str | None:
    """What is told of a key of a config file that is gone; None of any other."""
    flag = "--" + key.replace("_", "-")
    instead = GONE.get(flag, GONE.get(f"run {flag}"))
    return None if instead is None else f"{key} is gone: {instead}"
