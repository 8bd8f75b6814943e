"""Each row of a page's table "What can go wrong" is provoked by a test."""

# ruff: noqa: E501  # names of tests are long

import re

import pytest

from tests.house.source import PACKAGE, ROOT

HELP = PACKAGE / "help"
_TABLE = re.compile(r"^(?:## What can go wrong$|\| what can go wrong \|)", re.MULTILINE)
PAGES = sorted(path.stem for path in HELP.glob("*.md") if _TABLE.search(path.read_text()))
# page → how a row begins → why no test provokes it
NOT_PROVOKED = {"drill": {"what came back differs": "a manager of the lab gives back what it was sent"}}
# page → how a row begins → the test that provokes it
PROVOKED: dict[str, dict[str, str]] = {
    "alerts": {
        "notice … was not told": "adapters/test_notices.py::test_an_answer_that_is_no_success_is_trouble_and_no_redirect_is_followed",
        "… cannot be trusted": "adapters/test_notices.py::test_a_mail_server_that_is_not_trusted_or_says_no_gets_nothing",
        "exec: …": "cli/monitoring/test_notices.py::test_a_notice_that_fails_is_warned_of_listed_and_fails_nothing",
        "the metrics … are": "cli/monitoring/test_metrics.py::test_figures_that_cannot_be_written_stop_nothing",
        "the metrics … tell": "cli/monitoring/test_metrics.py::test_a_store_too_slow_for_the_figures_is_warned_of_and_a_limit_around_it_is_not_lost",
        "doctor: manager FAIL": "cli/site/test_doctor.py::test_a_manager_that_is_down_fails_and_the_store_is_told",
    },
    "airflow": {
        "there is no timezone": "cli/help/test_generate_airflow.py::test_what_makes_no_sense_is_wrong_usage",
        "a task failed, and": "airflow/test_outcome.py::test_only_what_would_end_the_same_way_is_never_tried_again",
        "maint: it said nothing": "airflow/test_outcome.py::test_the_reason_is_the_error_that_the_command_told",
        "`command` is one text": "airflow/test_outcome.py::test_a_command_in_one_text_is_refused_and_not_taken_letter_by_letter",
        "`backup list` ended well": "airflow/test_outcome.py::test_the_sensor_waits_for_a_backup_and_not_for_a_program_that_lists_none",
        "a task is done, and": "airflow/test_child.py::test_what_is_no_json_or_too_much_is_no_result",
        "a task is `up_for": "airflow/test_outcome.py::test_only_what_would_end_the_same_way_is_never_tried_again",
        "a killed task": "airflow/test_child.py::test_asked_to_end_it_is_waited_for_until_it_has_closed",
    },
    "bare-host": {
        "without a config, nobody": "cli/test_configless.py::test_nobody_is_trusted_on_first_sight",
        "without a config, a restore": "cli/test_configless.py::test_a_restore_says_which_flag_is_missing",
        "holds several sites": "cli/test_configless.py::test_several_sites_in_a_store_must_be_told_apart",
        "there is no snapshot in": "cli/test_configless.py::test_an_empty_store_is_told",
        "the signature is by a key": "cli/test_configless.py::test_a_snapshot_signed_by_somebody_else_is_not_restored",
        "these flags stand": "cli/test_configless.py::test_flags_that_stand_for_a_config_and_a_config_exclude_each_other",
    },
    "stores": {
        "holds nothing of … any more": "cli/backup/test_several_stores.py::test_a_store_whose_disk_is_not_mounted_is_not_begun_anew_until_somebody_says_that_all_is_lost",
        "is not an absolute path": "adapters/stores/test_stores.py::test_a_location_that_is_no_absolute_path_and_no_known_scheme_is_refused",
        "No space left": "adapters/stores/test_local_store.py::test_a_full_disk_says_so_and_what_to_do",
        "cannot write … in FOLDER": "adapters/stores/test_local_store.py::test_a_store_that_cannot_be_made_is_a_failure_with_words_and_a_way_out",
        "its host key is not": "adapters/stores/test_far_stores.py::test_a_host_whose_key_is_not_known_is_not_written_to",
        "cannot write … in sftp": "adapters/stores/test_far_stores.py::test_a_folder_that_may_not_be_written_to_is_a_failure_with_words",
        "cannot list": "adapters/stores/test_far_stores.py::test_a_service_that_is_down_is_a_failure_with_words",
        "… it serves this account": "adapters/stores/test_far_stores.py::test_a_host_without_sftp_is_told_with_where_to_look",
        "… sends elsewhere": "adapters/stores/test_lying_services.py::test_a_service_that_sends_elsewhere_is_told_with_what_to_name_instead",
        "overwrites what is there": "adapters/stores/test_far_stores.py::test_a_service_that_overwrites_is_refused_at_the_first_write",
        "… records/… is not copied": "snapshots/test_replicate.py::test_a_damaged_record_is_told_and_takes_no_name_in_a_copy_that_the_sound_one_needs",
        "a copy is down": "cli/backup/test_several_stores.py::test_a_copy_that_is_down_makes_the_run_partly_done_and_the_next_one_catches_up",
    },
    "pages": {
        "there is no page of": "report/test_pages.py::test_a_page_of_somebody_else_is_not_written_over",
        "there is no folder": "cli/site/test_site_report.py::test_a_folder_is_asked_for_where_the_config_names_none",
        "Not all can be seen": "cli/site/test_pages_in_trouble.py::test_with_its_first_store_away_a_page_tells_what_a_copy_holds_and_all_that_this_machine_knows",
        "Not seen yet": "cli/site/test_pages_in_trouble.py::test_all_sites_are_looked_at_by_one_command_though_none_has_pages_yet",
        "a page has tables": "report/test_pages.py::test_a_page_without_what_draws_says_what_it_lacks",
    },
    "checks": {
        "all is SKIP": "cli/hosts/test_check.py::test_a_choice_that_asks_nothing_is_unknown_and_no_pass",
        "there is no group": "cli/hosts/test_check.py::test_a_group_that_there_is_not_is_refused_in_the_list_too",
        "NOT REACHED": "cli/hosts/test_check.py::test_a_host_that_could_not_tell_alone_is_exit_7",
        "is not a file of facts": "cli/hosts/test_check.py::test_damaged_facts_are_refused_and_never_pass",
        "what the hosts said": "cli/hosts/test_check.py::test_more_facts_than_can_be_read_back_are_not_kept",
        "is not a support matrix": "checks/test_matrix.py::test_what_is_no_matrix_is_refused",
        "warning: …": "cli/hosts/test_check.py::test_an_accepted_deviation_passes",
    },
    "vc-backup": {
        "virtual cluster … could": "snapshots/virtual_clusters/test_take.py::test_alone_it_must_be_reached",
        "a snapshot is not verified": "snapshots/virtual_clusters/test_take.py::test_much_less_than_before_is_not_believed_and_freezes_retention",
        "names are taken": "snapshots/virtual_clusters/test_restore.py::test_what_is_there_is_refused_by_default",
        "what is there would": "snapshots/virtual_clusters/test_refused_replacements.py::test_nothing_is_replaced_before_all_that_comes_in_its_place_is_proven",
        "still answers at": "snapshots/virtual_clusters/test_restore.py::test_the_source_must_not_answer_at_another_address",
        "LEFT OUT": "snapshots/virtual_clusters/test_restore.py::test_a_dag_that_would_start_by_itself_is_left_out_unless_accepted_and_told_once_as_what_becomes_of_it",
        "job … is held back": "snapshots/virtual_clusters/test_restore.py::test_jobs_whose_environment_could_not_be_built_are_held_back_and_named",
        "no restore into": "snapshots/virtual_clusters/test_restore.py::test_schedules_that_nobody_restored_must_be_named",
    },
    "backup": {
        "nobody to encrypt the backups for": "snapshots/test_capture.py::test_without_recipients_the_identity_at_hand_is_used_and_without_both_nothing_starts",
        "audit-only, cannot be restored": "steps/guards/test_clusters.py::test_before_a_delete_the_present_state_is_kept_for_audit_only_and_a_machine_without_the_private_key_proves_it_too",
        "is stored, and must not be relied on": "snapshots/test_verify.py::test_a_backup_that_fails_its_own_verification_is_no_success",
        "is not what was stored": "snapshots/test_parts.py::test_what_a_store_swaps_after_the_proof_is_never_used",
        "the manifest belongs to": "cli/backup/test_verify_words.py::test_a_renamed_site_is_told_as_that_and_condemned_by_nobody",
        "is not shown there any more": "cli/site/test_doctor.py::test_a_store_that_hides_the_only_restorable_snapshot_below_a_newer_one_fails_here_and_before_a_restore",
        "was removed … while it was": "cli/backup/test_removed_meanwhile.py::test_a_command_says_that_it_is_gone_and_does_the_rest",
        "the signature is by a key that is not trusted": "adapters/test_sign.py::test_a_signature_by_a_stranger_names_the_stranger",
        "exit 6": "cli/test_refused.py::test_another_run_on_the_site_is_exit_6",
    },
    "configuration": {
        "there is no configuration": "config/test_precedence.py::test_without_a_configuration_the_way_to_one_is_named",
        "there is no key": "config/test_error_messages.py::test_an_unknown_key_gets_a_suggestion_or_the_known_keys",
        "several sites are configured": "config/test_precedence.py::test_several_sites_need_a_choice",
        "the secret file": "config/test_secrets.py::test_a_file_that_is_open_to_others_is_refused",
        "anybody on this machine": "cli/site/test_doctor.py::test_a_config_that_anybody_may_write_fails",
        "… is mounted read-only": "cli/site/test_doctor_past.py::test_a_config_on_a_volume_that_is_mounted_read_only_is_no_failure_whatever_its_mode",
        "the secret … holds": "config/test_secrets.py::test_a_password_of_several_lines_is_named_and_not_shown",
        "must not name a zone": "config/test_schema.py::test_a_mistake_is_named_where_it_stands",
        "must be a reference": "config/test_precedence.py::test_a_wrong_variable_is_named_and_a_secret_in_it_is_not_repeated",
    },
    "diff": {
        "there is no snapshot": "snapshots/diff/test_diff.py::test_without_a_snapshot_the_way_to_one_is_named",
        "begin with": "snapshots/diff/test_diff.py::test_drift_and_diff_by_command_and_of_an_id_that_two_begin_with_both_are_told",
        "is not what was stored": "snapshots/test_parts.py::test_what_a_store_swaps_after_the_proof_is_never_used",
    },
    "drill": {
        "this machine cannot drill": "restore/drill/test_drill.py::test_a_machine_without_the_private_key_says_where_it_can_be_done",
        "it does not pass level 3": "restore/drill/test_drill.py::test_a_damaged_snapshot_fails_the_drill_before_anything_is_brought_up",
        "entities that need a license": "restore/drill/test_reasons.py::test_a_drill_without_a_licence_asks_for_one_and_says_nothing_of_the_snapshot",
        "TLS did not come up": "restore/drill/test_reasons.py::test_settings_that_name_no_keystore_keep_tls_down",
    },
    "heal": {
        "this machine has no private key": "snapshots/heal/test_heal.py::test_a_file_of_references_or_a_sealed_one_heals_what_an_older_snapshot_cannot_and_only_with_the_private_key",
        "the password that was typed": "cli/backup/test_verify_words.py::test_what_is_healed_from_a_snapshot_wants_its_password_and_is_not_stored_where_that_is_mistyped",
        "the configured password does not open": "cli/backup/test_verify_words.py::test_what_is_healed_from_a_snapshot_that_the_password_does_not_open_is_opened_by_it_no_more",
        "is not redacted": "snapshots/heal/test_heal.py::test_nothing_is_stored_where_nothing_can_be_filled",
        "nothing … could be filled": "snapshots/heal/test_heal.py::test_nothing_is_stored_where_nothing_can_be_filled",
        "values could not be filled": "snapshots/heal/test_heal.py::test_a_file_of_references_or_a_sealed_one_heals_what_an_older_snapshot_cannot_and_only_with_the_private_key",
        "is open to others": "snapshots/heal/test_heal.py::test_a_file_of_references_or_a_sealed_one_heals_what_an_older_snapshot_cannot_and_only_with_the_private_key",
        "must be a reference": "snapshots/heal/test_heal.py::test_a_file_of_references_or_a_sealed_one_heals_what_an_older_snapshot_cannot_and_only_with_the_private_key",
    },
    "install": {
        "S3 stores need botocore": "cli/test_packaging.py::test_a_store_of_s3_without_its_library_names_the_extra",
        "pip could not fetch": "cli/test_packaging.py::test_without_an_index_a_bundle_says_what_pip_said",
        "sha256sum: WARNING": "cli/test_packaging.py::test_the_script_of_a_bundle_refuses_what_was_changed_and_an_old_python",
        "Python 3.11 or newer": "cli/test_packaging.py::test_the_script_of_a_bundle_refuses_what_was_changed_and_an_old_python",
    },
    "playbooks": {
        '"waits for nobody\'s word"': "steps/flow/test_approval.py::test_a_run_under_a_timer_is_approved_from_a_terminal_and_taken_up",
        '"too old to be answered"': "steps/flow/test_approval.py::test_a_question_whose_time_is_over_is_not_answered",
        '"nobody answered within': "steps/flow/test_approval.py::test_nobody_answering_in_time_fails_and_names_the_question",
        '"said no"': "steps/flow/test_approval.py::test_a_rejection_fails_the_run_and_yes_answers_nothing",
    },
    "rekey": {
        "this machine has no private key": "cli/backup/test_rekey.py::test_without_the_private_key_it_is_refused",
        "no private key at hand opens it": "cli/backup/test_rekey.py::test_what_nobody_here_can_open_is_partly_done_and_its_later_proof_is_kept",
        "nothing is removed: this machine": "cli/backup/test_rekey.py::test_a_machine_whose_clock_is_ahead_removes_nothing_and_reads_nothing_for_it",
        "stays: … is not proven": "snapshots/virtual_clusters/test_rekey.py::test_holds_of_people_are_copied_once_and_the_old_one_goes_only_once_every_copy_is_proven",
    },
    "retention": {
        "there is no retention policy": "cli/backup/test_retention.py::test_without_a_policy_pruning_is_refused",
        "nothing is removed now": "snapshots/test_prune.py::test_a_latest_backup_that_nobody_verified_is_doubtful_and_freezes",
        "No space left": "cli/backup/test_prune_full_disk.py::test_a_pruning_on_a_full_disk_says_how_little_room_it_needs_and_that_is_enough",
        "prune has to wait": "cli/backup/test_retention.py::test_pruning_waits_for_a_restore_that_was_killed",
    },
    "disaster": {
        "no port": "cli/lab/test_lab_down.py::test_a_lab_that_is_up_is_not_called_down",
        "lets in none of the configured accounts": "steps/test_troubles.py::test_a_server_that_lets_in_none_of_the_accounts_ends_with_4",
        "this machine has no private key": "snapshots/test_capture.py::test_a_machine_without_the_private_key_takes_verified_backups_and_cannot_open_them",
        "cannot list … in STORE": "cli/backup/test_several_stores.py::test_where_the_first_store_is_gone_what_reads_a_copy_is_told",
        "cannot list … in SHARED-STATE": "cli/backup/test_several_stores.py::test_where_the_shared_state_is_gone_for_good_it_is_told_what_a_restore_elsewhere_leaves_out",
        "another run is at work": "cli/test_refused.py::test_another_run_on_the_site_is_exit_6",
        "virtual cluster": "restore/recovery/test_virtual_clusters.py::test_the_address_of_another_virtual_cluster_changes_nothing_in_it_also_where_nobody_can_look_into_it_yet",
    },
    "hosts": {
        "Connection refused": "adapters/ssh/test_shell.py::test_a_closed_port_is_told",
        "no answer within 10 s": "adapters/ssh/test_bad_hosts.py::test_each_of_forty_hosts_answers_or_has_a_reason",
        "its host key is not known": "adapters/ssh/test_shell.py::test_a_host_that_is_not_known_is_refused_with_its_fingerprint_and_what_to_do",
        "ITS HOST KEY HAS CHANGED": "cli/hosts/test_check.py::test_a_bad_host_is_named_with_its_reason_and_hides_nobody",
        "root was not let in": "adapters/ssh/test_shell.py::test_an_account_that_is_not_let_in_is_told",
        "its answer did not end within": "adapters/ssh/test_fleet_contract.py::test_a_script_that_does_not_end_in_time_is_told_and_keeps_what_it_said",
        "the connection was lost": "adapters/ssh/test_bad_hosts.py::test_each_of_forty_hosts_answers_or_has_a_reason",
    },
    "redaction": {
        "a host of the group manager": "steps/test_strangers.py::test_another_managers_host_is_left_alone_and_told_and_nothing_is_restored_there",
        "this manager has N servers": "steps/test_window.py::test_every_server_that_the_config_names_is_edited_and_put_back_and_none_while_it_does_not_name_all",
        "the export is not restorable although": "steps/test_window.py::test_whatever_fails_closes_the_window_says_why_and_a_resume_opens_and_closes_it_once_more",
        "the export is not restorable: its secrets": "steps/test_troubles.py::test_an_export_that_does_not_hang_together_is_no_matter_of_redaction",
        "could not be restarted": "steps/test_troubles.py::test_a_server_that_cannot_be_restarted_leaves_the_window_to_be_closed",
        "a host cannot be reached while": "steps/test_window.py::test_after_a_kill_what_only_reads_warns_and_the_very_run_takes_the_window_over_and_closes_it_at_its_end",
    },
    "restore": {
        "lets in none of the configured accounts": "steps/test_troubles.py::test_a_server_that_lets_in_none_of_the_accounts_ends_with_4",
        "the newest restorable snapshot": "snapshots/test_prune.py::test_backups_of_a_manager_that_lost_its_configuration_push_out_none_that_still_has_it",
        "this machine has no private key": "snapshots/test_capture.py::test_a_machine_without_the_private_key_takes_verified_backups_and_cannot_open_them",
        "the certificate on the TLS port": "steps/test_disaster_recovery.py::test_after_the_restart_a_server_that_is_not_wholly_up_or_not_to_be_trusted_stops_the_run_until_a_resume",
        "the truststore password does not open": "steps/test_disaster_recovery.py::test_after_the_restart_a_server_that_is_not_wholly_up_or_not_to_be_trusted_stops_the_run_until_a_resume",
        "the configuration differs in N places": "steps/test_troubles.py::test_places_that_differ_from_the_snapshot_are_named",
        "the manager answered 503": "steps/test_disaster_recovery.py::test_a_cut_export_a_store_that_is_gone_and_a_manager_that_stays_unready_end_a_restore_before_anything_is_sent",
        "the plan is stale": "restore/test_plan.py::test_a_plan_is_the_same_where_something_changes_by_itself_and_stale_with_other_flags_a_changed_server_or_snapshot",
    },
    "schedule": {
        "a file of that name is there": "cli/schedule/test_schedule.py::test_a_file_of_somebody_else_is_never_replaced_and_never_removed",
        "… is the schedule of site": "cli/schedule/test_schedule.py::test_the_schedule_of_another_site_is_never_overwritten",
        "cannot be changed: Permission denied": "steps/test_troubles.py::test_a_folder_of_units_that_belongs_to_another_names_the_ways_out",
        "`systemctl …` failed": "cli/schedule/test_schedule.py::test_what_the_service_manager_refuses_is_told",
        "warning: …, which it writes to": "cli/playbooks/test_schedule.py::test_a_folder_that_a_run_writes_to_and_that_is_not_there_is_warned_of",
        "warning: a backup would fail": "cli/schedule/test_schedule.py::test_a_manager_that_is_down_or_lets_nobody_in_is_told_before_the_first_night",
        "there is no retention policy": "cli/schedule/test_schedule.py::test_what_could_never_work_is_not_scheduled",
        "a scheduled run has nobody to ask": "cli/schedule/test_schedule.py::test_a_secret_that_is_typed_cannot_be_scheduled",
    },
    "virtual-clusters": {
        "403, or nothing is listed": "adapters/virtual_clusters/test_commands.py::test_a_user_who_sees_nothing_is_told_of_the_role",
        "still answers at": "snapshots/virtual_clusters/test_restore.py::test_the_source_must_not_answer_at_another_address",
        "is not virtual cluster": "restore/recovery/test_virtual_clusters.py::test_the_address_of_another_virtual_cluster_changes_nothing_in_it_also_where_nobody_can_look_into_it_yet",
        "is a DAG that is paused": "adapters/virtual_clusters/test_recreate.py::test_a_dag_that_is_paused_is_refused_before_anything_is_touched_since_it_would_come_back_awake",
        "is taken": "snapshots/virtual_clusters/test_restore.py::test_a_hidden_resource_or_job_of_that_name_is_a_conflict_too",
    },
}


def rows(page: str) -> list[str]:
    """Return the first cells of a page's table of troubles."""
    text = (HELP / f"{page}.md").read_text()
    table = _TABLE.split(text, maxsplit=1)[1].partition("\n\nNext")[0].partition("\n## ")[0]
    found = re.findall(r"^\| (.+?) \|", table, re.MULTILINE)
    return [row for row in found if row not in ("message", "you see", "what is told")]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_a_table_of_troubles_and_each_row_is_known(page: str) -> None:
    known = [*PROVOKED[page], *NOT_PROVOKED.get(page, ())]
    assert rows(page) != []
    untried = [row for row in rows(page) if not any(row.startswith(begin) for begin in known)]
    assert untried == [], "name in PROVOKED the test that provokes it, or in NOT_PROVOKED why none does"
    assert [begin for begin in known if not any(row.startswith(begin) for row in rows(page))] == [], "no row begins so"


def test_every_test_that_is_named_exists() -> None:
    missing = []
    for place in {place for known in PROVOKED.values() for place in known.values()}:
        file, _, name = place.partition("::")
        path = ROOT / "tests" / file
        missing += [] if re.search(rf"^ *def {name}\(", path.read_text(), re.MULTILINE) else [place]
    assert missing == [], "name in PROVOKED the tests that provoke these rows now"
