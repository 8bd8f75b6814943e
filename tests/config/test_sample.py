"""The sample configuration is made from the schema and is itself a right configuration."""

import re
from pathlib import Path

from maint.config import precedence, sites, yaml
from maint.config.sample import reference, sample


def test_the_sample_loads_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(sample())
    site = precedence.load_settings(precedence.ConfigFlags(config=str(tmp_path / "config.yaml")), {}).site()
    assert (site.name, site.manager.host) == ("prod", "cm.example.internal")


def test_the_sample_loads_with_every_key_taken_into_use() -> None:
    document = yaml.load(re.sub(r"(?m)^( *)# ", r"\1", sample()), "sample.yaml")
    config = sites.checked(document)
    assert config.sites["prod"].virtual_clusters[0].users[0].name == "etl_user"


def test_the_sample_shows_every_key() -> None:
    document = yaml.load(re.sub(r"(?m)^( *)# ", r"\1", sample()), "sample.yaml")
    for key in reference():
        steps = key.name.replace(".NAME", ".prod").replace("[]", ".0").split(".")
        path = tuple(int(step) if step.isdigit() else step for step in steps)
        assert path in document, key.name


def test_the_example_host_is_the_managers_whose_files_a_backup_reads() -> None:
    (line,) = [line for line in sample().splitlines() if "- name: cm " in line]
    after = sample().split(line)[1]
    assert 'groups: ["manager"]' in after.split("virtual_clusters:")[0]
