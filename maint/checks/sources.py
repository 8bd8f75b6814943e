"""Where the rules of the checks come from."""

_DOCS = "https://docs.cloudera.com"
_GITHUB = "https://github.com"

SOURCES: dict[str, str] = {
    "NET": f"{_DOCS}/cdp-private-cloud-base/latest/installation/topics/cdpdc-networking-security-requirements.html",
    "BEF": f"{_DOCS}/cdp-private-cloud-base/7.1.8/installation/topics/cdpdc-before-you-install.html",
    "THP": f"{_DOCS}/cloudera-manager/7.13.3/managing-clusters/topics/cm-disabling-transparent-hugepages.html",
    "ENT": f"{_DOCS}/cdp-private-cloud-base/latest/installation/topics/cdpdc-data-at-rest-encryption-requirements.html",
    "RA": f"{_DOCS}/cdp-reference-architectures/latest/cdp-pvc-base-ra/topics/ra-cdpdc-filesystems.html",
    "IPT": f"{_DOCS}/cdp-private-cloud-data-services/latest/installation-ecs/topics/cdppvc-install-ecsha-iptables.html",
    "CDE": f"{_DOCS}/data-engineering/1.5.3/prereqs/topics/cde-private-cloud-prereqs.html",
    "HI": "the host inspector of Cloudera Manager",
    "HM": "the host monitoring defaults of Cloudera Manager",
    "PS": f"{_GITHUB}/cloudera-ps/prereq-checks",
    "CC": f"{_GITHUB}/cloudera-labs/cloudera.cluster",
    "EXE": f"{_GITHUB}/cloudera-labs/cloudera.exe",
    "RKE2": "https://docs.rke2.io/known_issues",
    "FX": "operating experience with these clusters",
    "own": "maint: a proposal of its own",
}
