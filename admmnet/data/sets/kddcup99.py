"""KDD Cup 1999 (UCI KDD archive, CC BY 4.0): connections of a network, attack (+1) against normal.

Encoded by the description of the task alone: names of protocols, services and states, rates and flags that lie in
[0, 1] by definition, counts over windows of a known size. Where a count has no bound by definition, a round number
caps it; docs/data.md lists them all.
"""

from __future__ import annotations

from typing import Any

from admmnet.data.known import DataSet, codes, each
from admmnet.data.readers.delimited import read_texts

ATTACKS = (
    "back", "buffer_overflow", "ftp_write", "guess_passwd", "imap", "ipsweep", "land", "loadmodule", "multihop",
    "neptune", "nmap", "perl", "phf", "pod", "portsweep", "rootkit", "satan", "smurf", "spy", "teardrop",
    "warezclient", "warezmaster",
)  # fmt: skip
"""The 22 attacks of the training data, as the task lists them."""
LABELS = {"normal": ["normal", "normal."], "attack": [f"{name}{end}" for name in ATTACKS for end in ("", ".")]}

_SERVICES = (
    "aol", "auth", "bgp", "courier", "csnet_ns", "ctf", "daytime", "discard", "domain", "domain_u", "echo", "eco_i",
    "ecr_i", "efs", "exec", "finger", "ftp", "ftp_data", "gopher", "harvest", "hostnames", "http", "http_2784",
    "http_443", "http_8001", "imap4", "IRC", "iso_tsap", "klogin", "kshell", "ldap", "link", "login", "mtp", "name",
    "netbios_dgm", "netbios_ns", "netbios_ssn", "netstat", "nnsp", "nntp", "ntp_u", "other", "pm_dump", "pop_2",
    "pop_3", "printer", "private", "red_i", "remote_job", "rje", "shell", "smtp", "sql_net", "ssh", "sunrpc", "supdup",
    "systat", "telnet", "tftp_u", "tim_i", "time", "urh_i", "urp_i", "uucp", "uucp_path", "vmnet", "whois", "X11",
    "Z39_50",
)  # fmt: skip
_STATES = ("OTH", "REJ", "RSTO", "RSTOS0", "RSTR", "S0", "S1", "S2", "S3", "SF", "SH")


def _log(high: float) -> dict[str, Any]:
    return {"kind": "numeric", "low": 0, "high": high, "scale": "log"}


_SHARE = {"kind": "numeric", "low": 0, "high": 1}  # flags and rates
_DAY = _log(86_400)  # seconds: the traffic was recorded day by day
_BYTES = _log(2**32)  # the width of a byte counter
_FEW = _log(10)
_SOME = _log(100)
_MANY = _log(1000)

_WINDOW = {"kind": "numeric", "low": 0, "high": 511}  # connections of the last two seconds
_HOST = {"kind": "numeric", "low": 0, "high": 255}  # connections to the same host
COLUMNS: dict[str, dict[str, Any]] = {
    "duration": _DAY, "protocol_type": codes("icmp", "tcp", "udp"),
    "service": codes(*_SERVICES),
    "flag": codes(*_STATES), "src_bytes": _BYTES, "dst_bytes": _BYTES,
    "land": _SHARE, "wrong_fragment": _FEW, "urgent": _FEW, "hot": _SOME, "num_failed_logins": _FEW,
    "logged_in": _SHARE, "num_compromised": _MANY, "root_shell": _SHARE, "su_attempted": _SHARE, "num_root": _MANY,
    "num_file_creations": _SOME, "num_shells": _FEW, "num_access_files": _FEW, "num_outbound_cmds": _FEW,
    "is_host_login": _SHARE, "is_guest_login": _SHARE, "count": _WINDOW, "srv_count": _WINDOW,
    **dict.fromkeys((
        "serror_rate", "srv_serror_rate", "rerror_rate", "srv_rerror_rate", "same_srv_rate", "diff_srv_rate",
        "srv_diff_host_rate",
    ), _SHARE),
    "dst_host_count": _HOST, "dst_host_srv_count": _HOST,
    **dict.fromkeys((
        "dst_host_same_srv_rate", "dst_host_diff_srv_rate", "dst_host_same_src_port_rate",
        "dst_host_srv_diff_host_rate", "dst_host_serror_rate", "dst_host_srv_serror_rate", "dst_host_rerror_rate",
        "dst_host_srv_rerror_rate",
    ), _SHARE),
}  # fmt: skip
"""The 41 columns in order, with their encoding in the keys of `[data.schema]`."""


SETS = (
    DataSet(
        name="kddcup99",
        read=each(read_texts, names=(*COLUMNS, "label"), header=False),
        schema={"label": "label", "labels": LABELS, "columns": COLUMNS},
        files=(("kddcup99/kddcup.data_10_percent", "kddcup99/kddcup.data"),),
        origin="the UCI KDD archive (KDD Cup 1999 data): kddcup.data_10_percent.gz, or the full kddcup.data.gz",
        alternative="the full set",
        notes=(
            "kddcup99: connections repeat (145,586 of the 494,021 records of the 10 % file are distinct), so train and"
            " test share most: errors look lower than they are",
        ),
    ),
)
