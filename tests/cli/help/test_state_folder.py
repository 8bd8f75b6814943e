"""What `maint help files` says of the state folder, held against one that commands have filled."""

from maint.lab.create import SITE
from tests.steps.operator import Operator


def test_each_name_in_a_state_folder_stands_in_the_topic_on_files(loaded: Operator) -> None:
    for words in (
        "backup create --open-window --yes", "backup drill", "backup list", "host check --check os.selinux",
        "setting set dfs_replication 2 --service hdfs --cluster base --yes",
        "vc job delete --name adhoc-rebuild --yes", "cluster stop base --timeout 1s --yes",
    ):  # fmt: skip
        loaded(*words.split())
    told = loaded("help", "files").out
    folder = loaded.state
    found = {one.name for one in folder.iterdir()} | {one.name for one in folder.parent.iterdir()} - {SITE}
    assert {"seen.json", "runs", "keys", "setting-undo", "vc-undo", ".managers"} <= found
    assert sorted(name for name in found if name not in told) == []
