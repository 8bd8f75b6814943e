"""What once went wrong, as operators, attackers and bad hours found it, and the tests that hold it.

A line is a finding, those below it are its tests: none goes without another that holds it in its place.
"""

from itertools import pairwise

from tests.house.source import ROOT

HELD = """
# What an attacker or a bad hour can do
a store that lied between proof and use, or till the last block, had a forged deployment committed
    snapshots/test_parts.py::test_what_a_store_swaps_after_the_proof_is_never_used
    snapshots/test_parts.py::test_what_is_proven_lies_in_no_file_that_has_a_name
    snapshots/virtual_clusters/test_restore.py::test_a_document_or_a_file_that_a_store_swaps_after_the_proof_is_never_sent
    campaigns/test_liars.py::test_a_restore_from_a_store_that_lies_sends_what_was_signed_or_nothing
    lab/manager/test_truth.py::test_a_server_may_commit_at_the_closing_brace_though_the_body_is_cut_afterwards
    snapshots/test_parts.py::test_nothing_of_a_forged_part_is_given_out_before_it_is_refused
    snapshots/test_parts.py::test_a_forged_part_as_long_as_the_true_one_is_refused_before_its_first_byte
    steps/guards/test_put.py::test_a_restore_that_is_taken_up_proves_no_less_and_keeps_what_was_there_once_and_what_changed_meanwhile
    steps/ecs/test_retire.py::test_what_is_no_longer_proven_or_lacks_dnf_and_yum_when_the_hosts_turn_comes_stops_it_until_it_is_put_back
what was no word of the server passed for its refusal, so that a deployment could be sent twice
    adapters/manager/test_interim.py::test_what_says_that_an_answer_is_to_come_is_not_the_answer
    adapters/manager/test_writes.py::test_a_document_that_can_be_read_no_further_leaves_it_open_whether_what_has_left_was_enough
a plan was carried out from another manifest than it was made from
    snapshots/test_parts.py::test_a_plan_is_held_to_the_manifest_that_it_was_made_from
    snapshots/test_parts.py::test_no_step_of_a_restore_uses_another_manifest_than_its_plan_was_made_from
    snapshots/virtual_clusters/test_restore.py::test_nothing_is_sent_from_another_manifest_than_the_plan_was_made_from
a store that hid the newest snapshot got an older one restored without a word
    snapshots/test_verify.py::test_a_store_that_hides_the_newest_snapshot_is_found_out
    snapshots/test_verify.py::test_a_store_that_spoils_the_newest_manifest_is_found_out
a list without an end crashed, or went on past the limit
    snapshots/test_parts.py::test_a_list_without_end_is_refused
    adapters/stores/test_lying_services.py::test_pages_without_an_end_are_left
    adapters/virtual_clusters/test_hostile.py::test_a_list_without_an_end_is_left
a torn line in a journal had the deployment committed again on every resume, and nobody could give the run up
    engine/test_journal.py::test_a_damaged_line_in_the_middle_refuses_resume_and_nothing_is_done_again
    engine/test_journal.py::test_a_torn_last_line_is_passed_over_and_ended_on_resume
    engine/test_journal.py::test_a_line_that_was_written_in_part_is_taken_back_before_another_is_written
    engine/test_journal.py::test_a_run_that_was_dismissed_is_never_taken_up_and_keeps_its_history
a password that was changed had each older backup called damaged, signed, and doctor name what removes it
    cli/backup/test_verify_words.py::test_a_password_that_was_changed_since_condemns_no_backup
a machine that did not know who signed condemned every backup for those that do
    cli/backup/test_verify_words.py::test_a_machine_that_does_not_know_who_signed_condemns_no_backup
what a restore by hand left in the folder of a snapshot condemned it
    cli/backup/test_verify_words.py::test_what_somebody_left_among_the_parts_is_told_and_keeps_nobody_from_a_restore
a greeting with the time of day passed for a restart of the server, and cost a backup the manager's files
    steps/hosts/test_greetings.py::test_a_greeting_that_changes_passes_for_no_restart_of_the_server
    steps/hosts/test_greetings.py::test_a_greeting_costs_a_backup_no_part
schedules that a restore had paused were forgotten by the next one
    snapshots/virtual_clusters/test_restore.py::test_schedules_that_an_earlier_restore_paused_go_on_after_another_that_left_their_jobs_as_they_were
a host of the group manager that runs another manager was edited and restarted, and doctor was green
    steps/test_strangers.py::test_another_managers_host_is_left_alone_and_told_and_nothing_is_restored_there
    steps/test_strangers.py::test_no_step_acts_on_another_managers_server_no_password_goes_there_and_nothing_of_it_goes_into_a_backup
    steps/test_strangers.py::test_whatever_works_on_the_managers_hosts_asks_first_whether_they_are_its
a host that hung after its login held doctor for two minutes
    cli/site/test_doctor.py::test_doctor_waits_once_for_a_host_that_hangs_after_its_login_and_names_it
a command that was given six seconds tidied up for four minutes, and told a limit that was not its own
    steps/test_time_limits.py::test_no_command_takes_longer_than_its_limit_and_what_tidies_up
    steps/test_time_limits.py::test_what_tidies_up_has_its_time_told_truly_and_names_what_removes_the_rest
a password that could not be had any more left a window told as open, and had the server restarted again and again
    steps/test_window.py::test_a_window_closes_though_the_password_cannot_be_had_any_more
    steps/test_window.py::test_a_window_that_was_left_open_is_closed_once_by_who_has_no_password
a pruning, or a run in a virtual cluster, went on in another one that the config named by then
    cli/backup/test_prune_killed.py::test_a_pruning_that_is_taken_up_removes_nothing_from_another_store
    cli/playbooks/test_elsewhere.py::test_a_run_in_a_virtual_cluster_goes_on_in_no_other_of_its_name
the schedule of a site was overwritten by that of another one, whose file has the same name
    cli/schedule/test_schedule.py::test_the_schedule_of_another_site_is_never_overwritten
    cli/schedule/test_schedule.py::test_a_playbook_and_a_site_whose_names_meet_do_not_take_the_place_of_others
a program before a run that hung took no notice of the limit of the command
    engine/test_hooks.py::test_a_program_before_counts_for_the_limit_of_the_command
a full disk left the redaction window open, or kept a run from taking the lock
    engine/test_journal.py::test_a_full_disk_takes_the_room_that_was_kept_back
    engine/test_journal.py::test_final_steps_are_done_on_a_full_disk_and_the_run_says_so
    engine/test_journal.py::test_a_run_whose_final_step_alone_could_not_be_written_down_says_so
    engine/test_journal.py::test_a_run_that_is_taken_up_keeps_room_back_again
    campaigns/test_faults.py::test_where_a_file_of_ours_cannot_be_written_a_command_says_so_and_leaves_nothing_open
    engine/test_lock.py::test_a_full_disk_keeps_nobody_from_taking_the_lock
a closed TLS port sent the password to the plain port
    adapters/manager/test_in_clear.py::test_a_closed_tls_port_does_not_talk_the_password_down
    adapters/manager/test_in_clear.py::test_before_a_restore_only_the_bootstrap_account_goes_in_clear
    adapters/manager/test_in_clear.py::test_after_a_restore_the_restored_account_is_found
    adapters/manager/test_in_clear.py::test_once_its_tls_port_was_seen_a_server_gets_no_password_in_clear_from_the_same_run
    steps/test_in_clear.py::test_a_run_that_is_taken_up_sends_the_sites_password_in_clear_only_between_put_and_restart
    steps/test_in_clear.py::test_between_put_and_restart_a_run_that_is_taken_up_logs_in_as_the_restored_account
    steps/test_in_clear.py::test_in_every_wait_after_a_restart_a_closed_tls_port_means_not_ready
    steps/test_in_clear.py::test_a_window_opens_on_the_tls_port_alone_closes_on_any_answer_and_once_tls_is_mended_the_hint_leads_to_the_end
    steps/test_in_clear.py::test_the_switch_waits_for_the_tls_port_alone
    steps/test_disaster_recovery.py::test_an_empty_manager_without_tls_gets_a_password_in_clear_only_from_the_run_that_gives_it_tls
a proxy could keep us from the TLS port, and got the password in clear
    adapters/manager/test_proxy.py::test_a_proxy_that_keeps_us_from_the_tls_port_sends_no_password_in_clear
any local user ran code as the owner of a lab
    lab/virtual_clusters/test_service.py::test_an_access_key_that_nobody_was_given_opens_nothing
    lab/virtual_clusters/test_service.py::test_only_its_owner_can_read_the_access_key
    cli/lab/test_lab_wishes.py::test_a_folder_named_as_the_package_is_not_imported_by_a_labs_process
    house/test_source.py::test_no_python_that_is_started_imports_what_lies_in_the_working_folder
a stored file that had rotted was claimed as verified
    snapshots/virtual_clusters/test_take.py::test_a_rotten_file_is_never_claimed_as_verified_and_is_fetched_anew
    snapshots/virtual_clusters/test_take.py::test_a_level_says_since_when_its_files_have_been_read
    snapshots/virtual_clusters/test_take.py::test_files_are_read_again_as_often_as_the_site_says
    snapshots/test_prune.py::test_nothing_is_removed_while_what_stays_has_rotted_unnoticed
a clock three hours ahead had a deployment sent twice, and nobody could say what became of it
    steps/test_disaster_recovery.py::test_an_answer_that_never_came_gets_a_further_deployment_only_from_resume_after_a_restart_of_its_own
    steps/test_disaster_recovery.py::test_whatever_keeps_us_from_restarting_the_server_a_person_may_answer_and_does_for_each_deployment_anew
    steps/test_answered.py::test_a_host_that_did_not_say_what_runs_there_proves_no_restart_and_what_a_person_answers_is_done_without_one
a second machine pruned the snapshot that another's restore needed, and saw no window of another
    snapshots/test_prune.py::test_another_machine_keeps_what_a_begun_restore_needs_until_it_has_ended
    steps/test_disaster_recovery.py::test_a_restore_that_was_refused_shows_no_secret_leaves_all_as_it_was_and_holds_its_snapshot_until_done_or_given_up
    campaigns/test_two_machines.py::test_two_machines_on_one_store_never_meet_a_bug_and_leave_it_whole
    steps/test_window_elsewhere.py::test_another_machine_sees_the_window_and_closes_it_byte_for_byte
    snapshots/test_open_windows.py::test_a_window_is_told_by_the_first_store_that_takes_the_record_until_it_is_closed
two machines on one local store ended as a bug
    adapters/stores/test_local_store.py::test_two_machines_that_make_and_remove_the_same_folders_do_not_disturb_each_other
answers of a manager, a host that prints without end, or a long name in an archive filled the memory
    adapters/manager/test_hostile.py::test_an_endless_answer_is_not_read_to_its_end
    adapters/manager/test_hostile.py::test_a_packed_answer_counts_by_what_it_unpacks_to
    adapters/ssh/test_fleet_contract.py::test_a_host_that_prints_without_end_is_ended_and_the_others_answer
    adapters/ssh/test_shell.py::test_a_command_that_prints_without_end_is_ended
    adapters/manager/test_export.py::test_an_export_without_an_end_is_left
    adapters/virtual_clusters/test_hostile.py::test_a_file_is_not_read_beyond_what_its_resource_says
    adapters/stores/test_far_stores.py::test_a_folder_of_a_host_that_lists_without_an_end_is_left
    snapshots/test_parts.py::test_a_name_of_any_length_is_refused_before_it_is_read
a text of a playbook took a minute and gigabytes before it was refused
    test_render.py::test_a_text_that_would_run_away_is_refused_before_it_is_made
a limit did not hold where an answer came drop by drop
    cli/test_limits.py::test_the_limit_ends_answers_that_come_drop_by_drop
    adapters/manager/test_hostile.py::test_an_answer_that_drips_ends_with_its_time
    adapters/manager/test_hostile.py::test_the_operators_limit_holds_in_other_threads_too
deep nesting, huge numbers and halves of characters ended as a bug
    adapters/manager/test_hostile.py::test_halves_of_characters_end_no_call_with_a_crash
    adapters/manager/test_hostile.py::test_an_answer_that_is_no_list_is_a_failure_and_never_an_empty_list
    adapters/manager/test_hostile.py::test_what_python_could_read_and_nothing_of_ours_could_use_is_refused_with_its_reason
    checks/test_script.py::test_an_answer_whose_status_is_no_number_is_none
    cli/test_refused.py::test_a_plan_file_that_is_nested_too_deeply_is_refused
a damaged file of our own, or a disk that took none, ended as a bug
    campaigns/test_inputs.py::test_a_damaged_file_of_any_kind_is_an_error_with_a_way_out
    test_files.py::test_what_is_nested_too_deep_is_told_as_damaged
    engine/test_journal.py::test_a_line_that_is_nested_too_deep_is_damage
    lab/manager/test_daemon.py::test_a_damaged_file_of_a_labs_process_is_no_lab_that_is_up
    snapshots/test_state_of_0_1_0.py::test_a_killed_run_is_taken_up_or_refused_by_name_of_its_version
    cli/test_exits.py::test_a_state_file_that_cannot_be_written_is_no_bug_and_says_which
a window was believed to be open because its record said so
    steps/test_window.py::test_a_window_whose_options_were_put_back_by_hand_is_opened_again_by_the_run_that_is_taken_up
a killed drill left secrets in clear, and nobody said so
    cli/site/test_doctor.py::test_what_a_killed_drill_left_in_clear_is_shown
    restore/drill/test_drill.py::test_the_evidence_is_a_signed_record_with_the_time_of_each_phase_and_the_next_drill_sweeps_what_a_killed_one_left
logs of a run could drive the terminal
    adapters/virtual_clusters/test_commands.py::test_the_log_of_a_run_cannot_drive_the_terminal_that_it_is_shown_on
    cli/test_sanitize.py::test_a_log_cannot_drive_a_terminal_and_reaches_a_program_as_it_is
a redacted copy was parsed that nobody had hashed
    snapshots/diff/test_diff.py::test_a_redacted_copy_that_is_not_what_was_signed_is_not_read
folders above the state followed the umask
    test_files.py::test_a_file_and_every_folder_that_is_made_for_it_are_private_whatever_the_umask
resume ended well where the run before it was killed before its journal
    cli/test_exits.py::test_resume_after_a_command_that_was_killed_before_its_run_began_is_no_success
    cli/test_exits.py::test_what_ended_before_its_run_began_is_not_taken_for_the_work_of_the_run_before_it
a core dump could hold secrets
    house/test_starts.py::test_a_core_dump_is_never_written_and_keys_of_connections_nowhere
what killed writers left stayed for good
    engine/test_journal.py::test_what_killed_writers_left_in_the_state_folder_goes_with_the_next_run
    adapters/ssh/test_shell.py::test_what_a_dead_writer_left_goes_with_the_next_write
    adapters/stores/test_local_store.py::test_what_a_killed_writer_left_is_swept_and_was_never_listed
nobody could install what was tested, and known vulnerabilities were not looked up
    cli/test_packaging.py::test_constraints_name_every_dependency_once_and_with_hashes_where_asked
    cli/test_packaging.py::test_constraints_are_what_these_tests_run_with
    cli/test_packaging.py::test_a_bundle_installs_without_a_network
    cli/test_packaging.py::test_known_vulnerabilities_of_what_was_tested_are_looked_up_but_those_accepted_until_a_day
an answer that was no command, or another's, passed for the end of the one that was sent
    adapters/manager/test_commands.py::test_a_200_that_is_no_command_leaves_open_what_became_of_one
    adapters/manager/test_commands.py::test_an_answer_that_is_not_the_command_that_was_asked_for_ends_no_wait
hosts, services and roles of a cluster that somebody made anew under a planned one's name were worked on
    steps/ecs/test_alone.py::test_hosts_of_a_cluster_that_was_made_anew_since_the_plan_are_left_alone
    steps/services/test_services.py::test_no_command_goes_to_a_cluster_that_was_made_anew_since_the_plan
a signal or a limit that came just before a wait was seen when that wait ended
    cli/test_signals.py::test_a_signal_that_comes_just_before_a_wait_ends_it
    cli/test_signals.py::test_a_limit_that_passes_just_before_a_wait_ends_it
a manager's server that its restart had stopped and not started was waited for by each resume
    steps/test_troubles.py::test_a_server_that_did_not_start_again_is_restarted_and_not_waited_for_when_the_run_is_taken_up
# What was done without being asked, or said and not so
a dry run acted
    cli/test_dry_run.py::test_a_dry_run_shows_what_would_be_done_and_writes_sends_and_starts_nothing
    steps/test_clusters.py::test_a_failed_command_tells_why_and_resume_shows_what_is_left_wants_one_of_several_named_and_says_who_gave_one_up
    steps/test_window.py::test_after_a_kill_what_only_reads_warns_and_the_very_run_takes_the_window_over_and_closes_it_at_its_end
deleting a resource broke the jobs of others
    adapters/virtual_clusters/test_safety_net.py::test_the_plan_of_a_deleted_resource_names_who_mounts_it
    adapters/virtual_clusters/test_safety_net.py::test_the_plan_of_a_deleted_job_names_the_dags_that_call_it
what was deleted was gone for good, and so were files of a recreated job that nobody replaced
    adapters/virtual_clusters/test_safety_net.py::test_a_deleted_resource_comes_back_with_its_files
    adapters/virtual_clusters/test_safety_net.py::test_where_it_cannot_be_sealed_it_is_refused_unless_a_reason_is_given
    adapters/virtual_clusters/test_safety_net.py::test_nothing_is_deleted_where_it_could_not_be_sealed_first
    adapters/virtual_clusters/test_safety_net.py::test_a_deletion_says_at_its_end_how_and_until_which_day_it_is_undone
    adapters/virtual_clusters/test_temporary.py::test_a_submission_prints_what_it_printed_leaves_nothing_and_seals_nothing_of_its_own
    adapters/virtual_clusters/test_recreate.py::test_files_that_are_not_replaced_stay_and_those_that_are_come_back_for_a_month
    adapters/virtual_clusters/test_recreate.py::test_the_plan_names_the_other_jobs_that_use_the_resource
a wrong private key branded good backups as damaged
    snapshots/test_verify.py::test_a_key_that_does_not_fit_is_not_verified_deeper_and_never_failed
    cli/backup/test_rekey.py::test_a_key_that_was_exchanged_brands_no_backup_as_damaged_and_heals_by_itself
a key could not be changed, and nobody knew whose key opens the backups
    cli/backup/test_rekey.py::test_all_are_encrypted_anew_once_and_the_old_ones_go_where_that_is_asked
    snapshots/virtual_clusters/test_rekey.py::test_the_new_one_has_the_same_contents_and_is_opened_by_the_new_key_alone
    cli/backup/test_rekey.py::test_what_people_hold_is_held_as_well_where_it_was_encrypted_anew
    campaigns/test_killed_rekeys.py::test_a_rekey_that_is_killed_at_any_moment_is_done_again_and_loses_nothing
    cli/site/test_doctor.py::test_each_recipient_is_told_with_whether_its_key_opens_the_newest_snapshot
    snapshots/test_escrow.py::test_who_became_a_recipient_later_cannot_open_it
a command that had failed was waited for on every resume
    steps/test_clusters.py::test_a_failed_command_tells_why_and_resume_shows_what_is_left_wants_one_of_several_named_and_says_who_gave_one_up
    steps/services/test_services.py::test_a_restart_of_which_nobody_can_tell_is_not_called_done_and_is_sent_again_on_resume
    adapters/virtual_clusters/test_temporary.py::test_a_run_that_is_gone_is_told_and_waited_for_by_nobody_who_takes_it_up
a server that never came up was not restarted again
    steps/test_disaster_recovery.py::test_after_the_restart_a_server_that_is_not_wholly_up_or_not_to_be_trusted_stops_the_run_until_a_resume
a plan said "nothing to do" of what an earlier step of it would undo
    steps/test_plans.py::test_a_plan_that_stops_a_cluster_does_not_say_that_starting_it_is_nothing_to_do
a plan took a name for free that was taken
    adapters/virtual_clusters/test_commands.py::test_the_plan_says_that_a_name_is_taken
a restore ended with "nothing was touched" once it had restored, for a question about what comes next
    steps/test_manager.py::test_then_start_is_asked_before_the_restore_refused_where_nobody_can_say_yes_and_brings_the_platform_up_too
a plan that deletes did not say that its safety copy cannot be restored
    steps/guards/test_clusters.py::test_before_a_delete_the_present_state_is_kept_for_audit_only_and_a_machine_without_the_private_key_proves_it_too
a truststore password that opens nothing was handed over
    steps/test_manager.py::test_a_password_that_does_not_open_the_truststore_is_not_handed_over_and_no_part_of_a_backup
an option set by hand was called somebody else's server
    steps/test_window_elsewhere.py::test_an_option_set_by_hand_without_a_restart_is_named_and_counts_after_one
    steps/test_window.py::test_whatever_fails_closes_the_window_says_why_and_a_resume_opens_and_closes_it_once_more
one line of doctor was well and failed at once
    cli/site/test_doctor.py::test_nothing_is_well_and_failed_under_one_name
an empty key file passed for a key, and a manager whose database is gone for a sound one
    cli/site/test_doctor.py::test_an_empty_key_file_is_no_key
    cli/site/test_doctor.py::test_a_manager_whose_database_is_gone_is_not_well
a line of doctor was green over what was broken, named another's reason, or a hint that mends nothing
    cli/site/test_doctor_hints.py::test_the_line_of_what_a_fault_breaks_fails_and_says_why_and_no_other
    cli/site/test_doctor_hints.py::test_what_the_hint_says_makes_what_is_broken_well_again
    cli/site/test_doctor_hints.py::test_what_is_gone_is_named_where_it_must_be_put_back
    cli/site/test_doctor_hints.py::test_a_licence_that_does_not_count_is_told_before_a_restore_needs_it
doctor asked neither hosts nor virtual clusters
    cli/site/test_doctor.py::test_each_host_and_each_virtual_cluster_of_a_sound_site_is_tried_and_nothing_fails_or_changes
    cli/site/test_doctor.py::test_a_changed_host_key_and_a_virtual_cluster_that_refuses_are_seen
every trouble with TLS was told as a missing file
    adapters/manager/test_hostile.py::test_each_kind_of_broken_tls_has_its_own_way_out
a remedy cured another ailment
    checks/test_rules.py::test_a_remedy_mends_what_is_wrong
    checks/test_remedies.py::test_what_a_verdict_says_mends_it
    checks/test_remedies.py::test_every_check_that_can_fail_is_seen_to_be_mended
    checks/test_remedies.py::test_what_could_not_be_told_is_not_mended_as_if_it_were_broken
    cli/hosts/test_remedies.py::test_what_the_remedy_of_an_ailment_says_mends_it_when_typed
    checks/test_rules.py::test_a_chain_of_the_configured_authority_bends_the_rule_and_needs_no_new_certificate
    cli/hosts/test_check.py::test_a_planted_problem_is_found_and_no_other
    steps/virtual_clusters/test_hints.py::test_a_run_that_could_not_be_fitted_in_is_told_to_ask_for_less
a remedy could not be pasted, or ran what a host had named a file
    checks/test_remedies.py::test_whatever_is_a_command_can_be_pasted
    checks/test_remedies.py::test_what_a_verdict_says_mends_it
a stop that ended well did not mention that its command failed
    steps/test_clusters.py::test_a_stop_whose_command_failed_ends_well_where_all_is_stopped_and_says_that_it_failed
a role group whose name two clusters have was changed in the first, and of two values of one name the last one won
    steps/services/test_settings.py::test_a_place_that_is_none_or_not_the_only_one_ends_with_the_way_on_and_what_is_said_to_list_or_unset_does_so
    cli/test_flags.py::test_a_name_that_is_given_two_values_is_wrong_usage_and_neither_is_shown
# Virtual clusters
a resource of somebody else was overwritten on resume
    snapshots/virtual_clusters/test_restore.py::test_what_somebody_else_made_is_not_overwritten_on_resume_either
    snapshots/virtual_clusters/test_restore.py::test_what_appears_after_a_kill_and_is_other_than_what_is_sent_is_left_alone
    snapshots/virtual_clusters/test_restore.py::test_what_appears_once_a_restore_has_begun_is_anothers_though_it_is_the_same
    snapshots/virtual_clusters/test_restore.py::test_a_hidden_resource_or_job_of_that_name_is_a_conflict_too
    snapshots/virtual_clusters/test_restore.py::test_what_appears_after_the_safety_snapshot_is_not_replaced_either
a wrong address changed a foreign virtual cluster
    restore/recovery/test_virtual_clusters.py::test_the_address_of_another_virtual_cluster_changes_nothing_in_it_also_where_nobody_can_look_into_it_yet
    restore/recovery/test_virtual_clusters.py::test_where_names_are_taken_nothing_is_touched_and_one_that_holds_something_else_wants_the_operators_word
drift and diff did not see what changed in a virtual cluster
    snapshots/diff/test_diff.py::test_a_changed_job_and_a_changed_file_are_differences_for_drift_and_diff_of_a_site
    snapshots/virtual_clusters/test_lab.py::test_virtual_clusters_alone_are_proven_as_deep_as_all_else_and_compared_and_have_no_configuration_to_compare
an answer of another shape was an empty list
    adapters/virtual_clusters/test_hostile.py::test_an_answer_that_is_no_list_is_not_an_empty_one
logs that come late were not waited for
    adapters/virtual_clusters/test_commands.py::test_a_log_is_waited_for_where_the_kinds_of_log_are_late_too
an error did not say what to do next
    house/test_words.py::test_every_failure_says_what_to_do_next
    adapters/manager/test_hostile.py::test_every_refusal_says_what_to_do
deleting what is not there ended well without a word, and what vanished after the plan was a failure
    adapters/virtual_clusters/test_commands.py::test_deleting_what_is_not_there_is_refused_and_is_well_with_if_exists
    adapters/virtual_clusters/test_safety_net.py::test_what_vanished_after_its_deletion_was_planned_is_no_failure_and_said
    adapters/virtual_clusters/test_safety_net.py::test_what_vanished_before_its_deletion_was_taken_up_is_no_failure_and_said
a damaged upload was blamed on somebody else
    snapshots/virtual_clusters/test_restore.py::test_a_damaged_upload_names_its_resource_and_is_replaced_on_resume
    snapshots/virtual_clusters/test_restore.py::test_jobs_whose_environment_could_not_be_built_are_held_back_and_named
a plan gave counts where names were needed
    snapshots/virtual_clusters/test_restore.py::test_all_that_the_plan_names_comes_back_the_same_and_asleep_jobs_after_resources_and_dags_last
an address that was refused printed its password
    cli/test_resume_values.py::test_an_address_with_a_password_is_refused_and_the_password_is_not_printed
an undo of a run that replaced a file time and again left what the run itself had put there
    adapters/virtual_clusters/test_safety_net.py::test_undoing_a_run_that_replaced_a_file_time_and_again_brings_back_what_was_there_before_it
hidden jobs that use a resource were named by no deletion
    adapters/virtual_clusters/test_safety_net.py::test_a_job_that_no_list_shows_is_named_where_a_dag_calls_it
one job that was deleted kept all schedules of a restored virtual cluster from going on
    snapshots/virtual_clusters/test_restore.py::test_schedules_that_were_awake_go_on_in_the_order_of_before_without_a_job_deleted_since_unless_it_is_named
a restored DAG whose file had not been read when its snapshot was taken was awake once it was read
    snapshots/virtual_clusters/test_lab_variants.py::test_a_restored_dag_that_its_own_file_wakes_rests_again_and_so_one_whose_file_was_not_read_for_the_snapshot
# Hosts
the manager's own certificate ended unseen
    checks/test_rules.py::test_the_managers_own_certificate_is_judged_beside_the_agents
    cli/hosts/test_check.py::test_the_status_of_a_site_says_when_the_managers_certificate_ends
deleting a cluster failed because a script of the parcel stays
    steps/ecs/test_retire.py::test_the_hosts_are_cleaned_between_stop_and_delete_nothing_else_is_touched_and_firewall_rules_come_back
a choice that asks nothing passed
    cli/hosts/test_check.py::test_a_choice_that_asks_nothing_is_unknown_and_no_pass
    cli/hosts/test_check.py::test_a_name_that_matches_nothing_is_wrong_usage
    checks/test_selection.py::test_a_check_that_concerns_none_of_the_hosts_is_a_skip_and_not_silence
    checks/test_selection.py::test_a_choice_that_leaves_nothing_is_refused
one host failed for the heartbeat of another, and a KDC of another realm answered for the own one
    cli/hosts/test_check.py::test_a_chosen_host_does_not_fail_for_the_silence_of_another_ones_agent
    checks/test_selection.py::test_a_choice_of_hosts_leaves_out_what_the_manager_says_of_others
    checks/test_rules.py::test_the_kdc_of_the_own_realm_alone_counts_however_the_file_is_indented
    checks/test_kerberos_files.py::test_a_realm_in_a_folder_that_is_included_is_read_and_its_kdc_tried
what could not be told was skipped, or passed
    checks/test_rules.py::test_what_could_not_be_told_is_an_error_and_neither_a_skip_nor_a_pass
    checks/test_real_shell.py::test_what_is_closed_to_the_account_that_asks_could_not_be_told
    cli/hosts/test_check.py::test_what_a_host_could_not_tell_is_shown_and_is_neither_well_nor_wrong
    cli/hosts/test_check.py::test_a_host_that_could_not_tell_alone_is_exit_7
Docker and Longhorn on one volume passed
    checks/test_rules.py::test_docker_and_longhorn_on_one_volume_fail
    checks/test_rules.py::test_a_plan_that_lays_docker_and_longhorn_on_one_volume_does_not_pass
a clock that ntpd keeps failed because chrony is installed, too
    checks/test_rules.py::test_a_clock_that_ntpd_keeps_is_in_step_though_chrony_is_installed
checks were weaker than what they promised
    checks/test_rules.py::test_keys_and_certificates_with_another_owner_or_a_wider_mode_fail
    checks/test_rules.py::test_huge_pages_that_come_back_with_the_next_boot_are_a_warning
    checks/test_rules.py::test_a_host_name_in_capitals_without_a_domain_or_too_long_for_a_directory_does_not_pass
    checks/test_rules.py::test_a_python_without_psycopg2_is_a_warning
    checks/test_commented.py::test_a_commented_line_of_rc_local_is_not_told
    checks/test_rules.py::test_a_manager_whose_ports_are_without_tls_never_passes
    checks/test_rules.py::test_users_and_groups_that_every_host_lacks_are_missing
    checks/test_rules.py::test_a_kernel_that_the_matrix_calls_bad_fails
    checks/test_rules.py::test_a_driver_of_oracle_without_its_character_sets_is_a_warning
    checks/test_rules.py::test_a_version_of_mysql_is_held_against_the_support_matrix
    checks/test_matrix.py::test_python_is_judged_by_the_matrix
    steps/kerberos/test_checks.py::test_an_ecs_master_of_the_lab_answers_for_kubernetes_vault_room_and_certificates
the key of a jump host could not be recorded
    cli/hosts/test_trust.py::test_the_key_of_the_jump_host_is_shown_and_recorded_first
    adapters/ssh/test_ways_in.py::test_the_key_of_a_jump_host_is_shown_although_it_is_not_known_yet
a host that is not known did not say how to trust it
    adapters/ssh/test_shell.py::test_a_host_that_is_not_known_is_refused_with_its_fingerprint_and_what_to_do
a jump host that forbids forwarding said "open failed"
    adapters/ssh/test_ways_in.py::test_a_jump_host_that_forbids_forwarding_is_told_with_what_to_look_at
what a question printed as its error was dropped
    checks/test_script.py::test_errors_are_kept_beside_the_answer
    checks/test_script.py::test_a_command_that_printed_nothing_is_told_in_its_own_words
an interruption discarded the answers that had come
    cli/hosts/test_check.py::test_an_interruption_shows_the_answers_that_had_come
a key with a passphrase was a type error
    adapters/ssh/test_shell.py::test_a_key_with_a_passphrase_is_refused_with_a_way_out
a secret that holds nothing had no hint
    config/test_secrets.py::test_a_file_without_a_usable_text_is_refused_with_a_way_out
    steps/kerberos/test_refused.py::test_a_principal_file_that_is_not_one_clean_line_is_refused_with_a_way_out
# Backup and restore
an expired licence in a snapshot locked it out of every restore
    restore/test_license.py::test_a_named_file_always_counts
    restore/test_license.py::test_the_first_in_date_counts
    restore/test_license.py::test_where_none_is_in_date_each_is_named
    snapshots/poison/test_poison.py::test_an_expired_licence_part_locks_nothing_out
    snapshots/test_verify.py::test_the_date_of_a_licence_is_noted_and_never_fails_a_verification
    steps/test_disaster_recovery.py::test_an_empty_manager_comes_back_by_a_saved_plan_a_trial_gives_way_to_the_licence_and_what_is_left_to_do_is_told
a backup that failed its own verification ended well
    snapshots/test_verify.py::test_a_backup_that_fails_its_own_verification_is_no_success
    snapshots/test_verify.py::test_a_new_snapshot_that_fails_for_another_reason_than_its_bytes_is_no_success
    cli/backup/test_verify_words.py::test_no_list_says_restorable_beside_failed
a secret that the server quotes was shown
    adapters/manager/test_hostile.py::test_a_secret_that_the_server_quotes_is_not_repeated
    adapters/manager/test_hostile.py::test_a_secret_in_a_commands_result_is_not_repeated
    steps/test_disaster_recovery.py::test_a_restore_that_was_refused_shows_no_secret_leaves_all_as_it_was_and_holds_its_snapshot_until_done_or_given_up
    campaigns/test_canaries.py::test_no_canary_shows_when_a_run_fails
a secret that a server, a shell or a library spelled in its own way was shown
    cli/test_sanitize.py::test_a_secret_is_hidden_however_somebody_spells_it
what stands in a secret's place passed for the secret, and the export for restorable
    deployment/test_judge.py::test_whatever_stands_in_the_place_of_a_single_secret_makes_it_redacted
accepting redacted backups accepted broken ones
    cli/test_exits.py::test_what_is_redacted_and_broken_besides_is_never_accepted_nor_sent_through_a_window
one dropped connection ended a stop
    steps/test_clusters.py::test_five_troubles_in_a_row_end_no_wait_and_six_do
    steps/test_clusters.py::test_a_passing_trouble_while_polling_is_lived_through_and_one_that_stays_is_not
keys that a newer server adds were a difference
    deployment/test_hostile.py::test_a_key_that_a_newer_server_adds_to_each_configuration_is_no_setting
an answer of a proxy to a delete was never named
    steps/test_clusters.py::test_a_proxys_answer_to_a_delete_is_named_where_the_cluster_stays
    steps/test_clusters.py::test_what_is_waited_for_is_told_once_and_named_when_the_limit_passes
a mistyped argument was only missing
    cli/playbooks/test_writing.py::test_a_mistyped_argument_is_told_once_with_the_name_that_was_meant
    cli/site/test_doctor.py::test_an_unknown_snapshot_is_wrong_usage_with_the_nearest_names
    cli/test_refused.py::test_an_unknown_site_is_exit_2
    cli/test_configless.py::test_snapshots_by_another_signer_are_refused_with_that_reason
requests left before a secret that others can read was refused
    adapters/manager/test_in_clear.py::test_a_secret_that_cannot_be_had_stops_before_anything_leaves
a third recipient was on no page
    snapshots/test_capture.py::test_a_part_is_sealed_for_as_many_as_its_help_page_tells
the safety copy of an empty server was called redacted
    steps/guards/test_put.py::test_a_restore_that_is_taken_up_proves_no_less_and_keeps_what_was_there_once_and_what_changed_meanwhile
a limit was told as another than the one that was given
    cli/test_exits.py::test_a_limit_is_told_as_it_was_given_and_not_as_what_was_left_of_it
a long reason why a certificate is not believed was told twice
    cli/test_exits.py::test_without_insecure_a_certificate_of_another_authority_is_exit_4_and_its_reason_is_told_once
programs were told the level that a verification was to reach, beside words that told the one it did
    cli/backup/test_verify_words.py::test_programs_are_told_the_level_that_was_reached_beside_the_one_that_was_asked_for
a mistyped password, or a damaged private key, condemned a sound snapshot
    cli/backup/test_verify_words.py::test_a_mistyped_password_says_nothing_of_the_snapshot
    cli/backup/test_verify_words.py::test_where_the_private_key_cannot_be_read_each_is_looked_at_as_deep_as_goes_without_it
the manager's own files were left out of a backup, all well, where the store did not give them back
    snapshots/parts/test_further.py::test_what_was_had_and_the_store_did_not_keep_is_not_left_out_of_a_backup
a file dated a day ahead had what another machine was just storing swept away
    snapshots/test_sweep.py::test_a_file_dated_ahead_takes_nothing_from_a_capture_under_way_elsewhere
a conflicted copy of a record kept every copy of a store partly done
    snapshots/test_replicate.py::test_what_a_program_that_syncs_folders_leaves_beside_a_record_is_none
a busy S3 service ended a backup with one SlowDown, a server with one stray 401 after its restart
    adapters/stores/test_far_stores.py::test_a_write_that_a_service_turns_away_since_too_much_is_asked_of_it_is_sent_again
    adapters/manager/test_login.py::test_a_stray_401_to_an_account_that_was_let_in_before_is_asked_again
what an account may not look for on the manager's host was noted as absent, so that a restore did not miss it
    snapshots/parts/test_further.py::test_what_the_account_may_not_look_for_is_not_said_to_be_absent
an export that a server would refuse was called restorable, and a good one with another kind of hash failed its drill
    campaigns/test_restorable.py::test_what_is_called_restorable_is_taken_by_a_server_that_lets_an_administrator_in
    deployment/test_judge.py::test_each_broken_rule_is_named
    restore/drill/test_drill.py::test_the_evidence_is_a_signed_record_with_the_time_of_each_phase_and_the_next_drill_sweeps_what_a_killed_one_left
# Damage to its own state
a line written in part was glued to the next one
    engine/test_journal.py::test_a_line_that_was_written_in_part_is_taken_back_before_another_is_written
    engine/test_journal.py::test_a_torn_line_that_cannot_be_taken_back_ends_the_journal
a damaged record of an open window kept it open
    steps/test_window_elsewhere.py::test_a_damaged_record_of_a_window_keeps_nobody_from_closing_it_or_from_looking
a process number in a lock was believed
    engine/test_lock.py::test_a_killed_process_holds_no_lock_as_the_kernel_says_and_not_a_process_number
    steps/test_window.py::test_after_a_kill_what_only_reads_warns_and_the_very_run_takes_the_window_over_and_closes_it_at_its_end
    campaigns/test_clocks_and_machines.py::test_a_lock_that_names_a_process_number_which_another_program_has_by_now_holds_nobody_up
a run that was refused on resume could not be resumed again
    engine/test_run.py::test_a_run_that_is_refused_on_resume_can_be_resumed_again
what a waiting branch needs was lost where another one failed
    engine/test_branches.py::test_what_a_waiting_branch_needs_is_not_lost_where_another_one_fails
a user without a name could not take the lock
    engine/test_lock.py::test_a_user_without_a_name_takes_the_lock
    campaigns/test_clocks_and_machines.py::test_an_account_that_the_system_does_not_know_works_or_is_told_what_it_lacks
snapshots from the future counted into the floor
    snapshots/test_prune.py::test_a_snapshot_from_the_future_is_not_counted_into_the_floor
    snapshots/test_retention_policy.py::test_what_is_from_the_future_or_cannot_be_believed_stays_and_changes_nothing_for_the_others
    snapshots/test_retention_policy.py::test_the_newest_backup_of_each_virtual_cluster_stays_however_old_it_is
a run that an older version began ended as a bug
    engine/test_journal.py::test_a_run_of_the_first_format_is_read_and_refused_with_the_version_that_began_it
    snapshots/test_state_of_0_1_0.py::test_a_killed_run_is_taken_up_or_refused_by_name_of_its_version
a drill that was ended crashed Python
    campaigns/test_ended_drills.py::test_a_drill_that_is_ended_at_any_moment_ends_in_order_and_leaves_nothing
    lab/manager/test_truth.py::test_no_thread_of_a_manager_outlives_it
tests hung under nohup
    house/test_starts.py::test_what_tests_start_under_nohup_still_hears_a_lost_terminal
a run that was given up came back where its being forgotten was cut off
    engine/test_journal.py::test_a_dismissed_run_stays_so_wherever_its_being_forgotten_is_cut_off
# The night shift
a line for the own crontab named a user
    cli/schedule/test_schedule.py::test_lines_for_the_own_crontab_name_no_user
a timer was installed that would fail every night
    cli/schedule/test_schedule.py::test_that_every_backup_would_end_with_7_is_said_beforehand
a second copy was dead, and nobody saw it
    cli/backup/test_several_stores.py::test_a_copy_that_is_down_makes_the_run_partly_done_and_the_next_one_catches_up
    cli/monitoring/test_alert_rules.py::test_each_rule_fires_when_it_should_and_says_of_what
    cli/site/test_doctor_hints.py::test_what_the_hint_says_makes_what_is_broken_well_again
resume took up a trifle in the place of the run that matters
    steps/test_clusters.py::test_a_failed_command_tells_why_and_resume_shows_what_is_left_wants_one_of_several_named_and_says_who_gave_one_up
    cli/monitoring/test_notices.py::test_a_run_that_cannot_begin_is_told_and_a_dismissed_one_raises_nothing
nobody knew who ran what with which version
    cli/playbooks/test_history.py::test_each_run_says_who_with_which_version_and_each_attempt
    cli/playbooks/test_history.py::test_the_report_says_who_took_the_run_up_each_attempt_and_the_time_of_each_step
reports and journals grew for ever
    cli/playbooks/test_history.py::test_old_runs_go_with_all_that_lies_beside_them_but_what_may_be_taken_up_stays
a full disk was found only once the manager had been restarted
    steps/test_window.py::test_a_disk_without_room_for_a_backup_is_told_before_the_window_opens
a host that was not reached was 57 lines
    checks/test_outputs.py::test_a_host_that_was_not_reached_is_one_line_in_every_form
a limit did not say what was waited for
    cli/test_exits.py::test_a_limit_that_passes_while_something_is_read_says_during_what
    steps/virtual_clusters/test_hints.py::test_a_run_that_outlasts_the_limit_is_named_with_what_it_was_last_seen_as
    steps/test_clusters.py::test_a_command_that_outlasts_the_operators_limit_is_named
    steps/test_clusters.py::test_what_is_waited_for_is_told_once_and_named_when_the_limit_passes
a proxy was obeyed by some, and named by none
    cli/test_proxy.py::test_a_proxy_leads_to_the_manager_and_to_virtual_clusters_but_to_what_no_proxy_names
    cli/test_proxy.py::test_plans_and_doctor_say_what_goes_through_a_proxy
a manager that another run restarted was told as one that is down
    cli/test_refused.py::test_a_manager_that_another_run_restarts_is_exit_6_and_told_as_that_run
# Own runbooks
a runbook could neither check hosts, ask, tell nor change services
    steps/hosts/test_check.py::test_what_is_wrong_stops_the_run_and_names_check_and_host
    steps/flow/test_approval.py::test_a_run_under_a_timer_is_approved_from_a_terminal_and_taken_up
    steps/flow/test_notify.py::test_it_tells_all_and_what_does_not_arrive_fails_nothing
    steps/services/test_services.py::test_a_service_also_the_monitoring_is_stopped_started_restarted_and_refreshed_once_each
    engine/test_hooks.py::test_programs_run_before_and_after_and_stand_in_the_journal
mistakes were told one a round
    cli/playbooks/test_writing.py::test_all_mistakes_of_all_files_are_told_at_once_with_their_places
    cli/playbooks/test_writing.py::test_hosts_and_names_are_held_against_the_config
a runbook could not be tried, rolled or scheduled
    cli/playbooks/test_playbook_test.py::test_a_shipped_playbook_does_what_its_test_says
    steps/hosts/test_rolling.py::test_a_step_is_planned_for_so_many_hosts_at_a_time
    cli/playbooks/test_schedule.py::test_a_timer_runs_the_playbook_with_what_it_was_given
    engine/test_repeat.py::test_it_looks_again_until_it_holds
a file was replaced without a look at what changes
    steps/hosts/test_difference.py::test_the_plan_shows_what_changes_in_a_file_that_is_replaced_and_on_which_hosts
the help of a playbook did not list its parameters
    cli/playbooks/test_writing.py::test_help_lists_the_parameters_with_type_default_and_meaning
members of `apart` that had gone well were put back, and what follows an included playbook followed where it should not
    engine/test_branches.py::test_a_member_that_went_well_or_waits_is_not_put_back_where_another_one_fails
    engine/test_branches.py::test_what_follows_an_included_playbook_does_so_where_a_step_of_one_that_it_includes_was_begun
    engine/test_branches.py::test_a_playbook_included_among_the_steps_that_follow_puts_back_only_where_it_fails_itself
# Conventions
colours came unasked, and completion knew no names
    cli/test_color.py::test_a_terminal_is_shown_colours_unless_somebody_wants_none
    cli/completion/test_completion.py::test_names_come_from_the_config_the_state_and_the_store
JSON did not fit its schema, and no command had an example; -h was an error
    cli/test_flags.py::test_every_command_shows_its_help_with_the_common_flags_for_help_and_for_h
    cli/test_flags.py::test_what_a_command_alone_can_print_stands_in_its_help
    cli/test_outputs.py::test_what_each_command_prints_fits_its_schema
    cli/help/test_examples.py::test_every_command_has_an_example_under_its_help_and_on_the_page_of_commands
inside words stood in front of users
    house/test_words.py::test_no_message_names_a_section_or_a_type
    house/test_words.py::test_no_step_kind_is_described_twice
    house/test_words.py::test_one_of_a_kind_is_told_without_the_s_of_several
    restore/test_plan.py::test_a_plan_is_the_same_where_something_changes_by_itself_and_stale_with_other_flags_a_changed_server_or_snapshot
the first config could not take a backup
    config/test_sample.py::test_the_example_host_is_the_managers_whose_files_a_backup_reads
    cli/site/test_doctor.py::test_a_reason_is_told_once
a drill that had no licence advised another backup, and branded the snapshot
    restore/drill/test_reasons.py::test_a_drill_without_a_licence_asks_for_one_and_says_nothing_of_the_snapshot
a verification of a redacted snapshot was called failed
    cli/backup/test_verify_words.py::test_a_redacted_snapshot_is_whole_and_not_restorable
it did not run as a module, and nothing held what was stored
    house/test_starts.py::test_the_package_runs_as_a_program
    adapters/stores/test_far_stores.py::test_object_lock_keeps_what_is_written_and_not_the_flag_of_a_run
    cli/schedule/test_schedule.py::test_older_snapshots_are_verified_by_a_timer_of_their_own
    steps/services/test_settings.py::test_a_services_settings_come_back_from_a_snapshot_without_a_put_of_the_deployment
sister commands took different options
    adapters/virtual_clusters/test_commands.py::test_init_takes_the_virtual_cluster_as_its_sisters_do
    adapters/virtual_clusters/test_commands.py::test_a_resource_may_be_left_out_of_lists
    adapters/virtual_clusters/test_commands.py::test_a_list_of_jobs_calls_no_schedule_on_that_is_not_enabled
    steps/test_troubles.py::test_a_paused_job_that_is_run_by_hand_names_the_command_that_wakes_it
# What an expert would miss
a restored platform had no Kerberos credentials, and nothing said so
    steps/services/test_credentials.py::test_credentials_are_made_before_the_platform_starts_and_the_password_is_kept_nowhere
    restore/test_plan.py::test_the_plan_tells_endpoints_secrets_hosts_snapshot_and_by_meaning_what_would_be_lost_by_reads_alone
the database and the certificates of the manager could not be kept
    snapshots/parts/test_database.py::test_a_dump_is_taken_where_it_is_asked_for_sealed_verified_said_and_its_password_is_nowhere
    snapshots/parts/test_host_files.py::test_a_lost_certmanager_comes_back_before_the_restart_and_lost_options_without_the_line_of_the_window
what a snapshot does not cover stood on one page alone
    snapshots/parts/test_further.py::test_the_recipe_beside_a_snapshot_says_all_that_it_does_not_cover
    restore/test_plan.py::test_the_plan_tells_endpoints_secrets_hosts_snapshot_and_by_meaning_what_would_be_lost_by_reads_alone
# The lab's truth
an exception in a handler of the lab hung its client
    lab/manager/test_truth.py::test_a_handler_that_fails_is_answered_500_and_logged_with_or_without_a_body
    lab/manager/test_truth.py::test_settings_of_another_shape_are_refused_and_never_left_without_an_answer
    lab/manager/test_truth.py::test_a_length_that_is_no_number_is_a_400
    lab/manager/test_truth.py::test_a_chunk_whose_length_is_no_number_is_a_400_and_waited_for_by_nobody
    lab/manager/test_truth.py::test_half_a_character_is_a_400_and_spoils_nothing_that_is_kept
    lab/virtual_clusters/test_objects.py::test_a_body_that_no_parser_likes_is_a_400
    lab/manager/test_truth.py::test_mutated_deployments_are_taken_or_refused_never_left_without_an_answer
other methods got a page of Python's
    lab/manager/test_truth.py::test_a_head_is_a_get_without_its_body
    lab/manager/test_truth.py::test_other_methods_are_405_with_what_is_allowed
    lab/manager/test_truth.py::test_the_plain_port_redirects_every_method
the vendor's clients missed fields and calls
    lab/manager/test_truth.py::test_services_and_roles_have_tags
    lab/manager/test_truth.py::test_the_full_view_of_hosts_has_tags_distribution_and_config
    lab/manager/test_cm_client.py::test_it_moves_a_deployment_to_an_empty_server
    lab/manager/test_truth.py::test_groups_templates_roles_and_mappings_are_read
    lab/manager/test_truth.py::test_the_logs_of_a_command_are_archives
    lab/manager/test_truth.py::test_parcels_go_from_stage_to_stage
    lab/manager/test_truth.py::test_hosts_join_a_cluster_and_leave_it
    lab/manager/test_truth.py::test_certificates_are_generated_by_a_command
    lab/manager/test_truth.py::test_what_is_not_simulated_is_told_from_what_does_not_exist
    lab/manager/test_truth.py::test_the_help_lists_every_call
an old version of the API lost nothing here
    lab/manager/test_truth.py::test_an_export_by_an_old_version_has_the_shape_of_that_version
    lab/manager/test_truth.py::test_what_an_old_version_does_not_carry_is_lost_by_a_restore_through_it
    lab/manager/test_truth.py::test_a_setting_that_nobody_knows_is_refused_unless_switched_off
    lab/manager/test_truth.py::test_a_body_that_is_said_to_be_something_else_is_refused_unless_switched_off
    lab/manager/test_truth.py::test_the_full_view_of_settings_says_more_and_lists_defaults
a switch of the lab that nothing reads passed
    lab/manager/test_switches.py::test_every_switch_and_every_fault_is_asked_for_somewhere_and_thrown_by_a_test
a lab that did not come up left a folder, and one was thrown away unasked
    cli/lab/test_lab_wishes.py::test_a_lab_that_did_not_come_up_leaves_nothing_and_another_can_be_made_in_its_place
    cli/lab/test_lab_wishes.py::test_a_lab_is_thrown_away_only_when_the_operator_agrees
    cli/lab/test_lab_wishes.py::test_a_folder_that_holds_something_else_stays_as_it_is
    cli/lab/test_lab_wishes.py::test_a_demo_that_fails_names_nothing_that_it_removed
faults of the lab outlived their repair, or could not strike
    lab/manager/test_truth.py::test_a_command_that_never_ends_ends_with_a_repair
    lab/manager/test_truth.py::test_a_cut_body_says_how_much_of_it_came
    lab/manager/test_parts.py::test_an_expired_host_certificate_is_still_of_its_key_and_names
    lab/virtual_clusters/test_lists.py::test_a_list_of_one_page_can_shift_too
    lab/manager/test_recordings.py::test_a_recorded_administrator_keeps_the_password_that_was_given
the lab's own jobs failed for want of Spark
    lab/virtual_clusters/test_runs.py::test_the_example_jobs_run_without_spark
    lab/virtual_clusters/test_runs.py::test_a_package_that_is_not_there_is_named
"""


def test_whatever_once_went_wrong_is_held_by_tests_that_exist() -> None:
    lines = [line for line in HELD.splitlines() if line and not line.startswith("#")]
    findings = [number for number, line in enumerate(lines) if not line.startswith("    ")]
    held = {lines[one]: lines[one + 1 : end] for one, end in pairwise([*findings, len(lines)])}
    assert len(held) == len(findings)
    missing = {}
    for finding, tests in held.items():
        places = [test.strip().partition("::") for test in tests]
        gone = [name for file, _, name in places if f"\ndef {name}(" not in (ROOT / "tests" / file).read_text()]
        missing |= {finding: gone} if gone or not tests else {}
    assert missing == {}, "name in HELD the tests that hold these findings now"
