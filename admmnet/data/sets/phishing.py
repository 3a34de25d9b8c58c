"""Phishing websites (UCI, CC BY 4.0): 11,055 records, in libsvm form (68 binary features) or as UCI has them."""

from __future__ import annotations

from functools import partial

from admmnet.data.known import DataSet
from admmnet.data.readers.delimited import Form, read_texts
from admmnet.data.readers.libsvm import read_libsvm

_ATTRIBUTES = (
    "having_IP_Address", "URL_Length", "Shortining_Service", "having_At_Symbol", "double_slash_redirecting",
    "Prefix_Suffix", "having_Sub_Domain", "SSLfinal_State", "Domain_registeration_length", "Favicon", "port",
    "HTTPS_token", "Request_URL", "URL_of_Anchor", "Links_in_tags", "SFH", "Submitting_to_email", "Abnormal_URL",
    "Redirect", "on_mouseover", "RightClick", "popUpWidnow", "Iframe", "age_of_domain", "DNSRecord", "web_traffic",
    "Page_Rank", "Google_Index", "Links_pointing_to_page", "Statistical_report",
)  # fmt: skip
"""Of the UCI form; each is -1, 0 or 1."""
_FEATURES = 68
_NOTES = ("phishing: only 5,849 of its 11,055 records are distinct, so train and test share some: errors look low",)

SETS = (
    DataSet(
        name="phishing",
        read=partial(read_libsvm, width=_FEATURES),
        schema={"labels": ["0", "1"], "features": _FEATURES},
        files=(("phishing/phishing.libsvm",),),
        origin="the LIBSVM data page: phishing",
        bound=0.18257,  # every entry that is not 0: 1/sqrt(30) to five digits
        notes=_NOTES,
    ),
    DataSet(
        name="phishing:uci",
        read=partial(read_texts, names=(*_ATTRIBUTES, "Result"), form=Form(header=False)),
        schema={
            "label": "Result",
            "labels": ["-1", "1"],
            "columns": {name: {"kind": "numeric", "low": -1, "high": 1, "scale": "centred"} for name in _ATTRIBUTES},
        },
        files=(("phishing/phishing_uci.csv",),),
        origin="the UCI archive (Phishing Websites): the data rows of its one file, as phishing_uci.csv",
        notes=_NOTES,
    ),
)
