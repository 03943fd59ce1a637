//! The suite every store passes. Each case makes its own session, agent and connections, so all of
//! them can run against one store, one after another or at once.
//!
//! A store gets every case as a test of its own with [`for_each_case`](crate::for_each_case), or
//! all of them in one go with [`cases`].

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::store::Store;

pub mod agents;
pub mod appends;
pub mod attachments;
pub mod claims;
pub mod closing;
pub mod control;
pub mod deletions;
pub mod forks;
pub mod inbox;
pub mod leases;
pub mod lists;
pub mod logs;
pub mod moves;
pub mod nearly;
pub mod outbox;
pub mod releases;
pub mod reports;
pub mod revocations;
pub mod routes;
pub mod scene;
pub mod signals;
pub mod spending;
pub mod storage;
pub mod streams;
pub mod tidying;
pub mod turns;
pub mod usage;

pub type ConformanceCase = fn(&Arc<dyn Store>) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

/// Hands the names of all cases to the macro `$with`, as `room: case case …;`.
#[macro_export]
macro_rules! for_each_case {
    ($with:ident) => {
        $with! {
            agents:
                a_registered_agent_is_listed_with_its_workers
                the_card_is_that_of_the_worker_that_came_last
                a_card_goes_back_when_the_worker_that_came_last_is_gone
                agents_are_listed_by_name
                an_agent_without_workers_is_deserted
                sessions_that_want_a_worker_are_counted
                an_agent_that_sessions_came_of_is_deserted
                an_agent_that_nobody_runs_is_forgotten_after_a_while;
            appends:
                events_are_numbered_without_holes
                a_repeated_append_is_done_but_writes_nothing
                a_gap_is_refused_from_both_sides
                only_the_holder_writes
                acknowledged_commands_leave_and_others_stay
                a_lost_request_that_was_answered_is_joined
                an_append_without_events_only_acknowledges
                fields_stay_until_they_are_changed
                a_repeated_append_changes_no_fields
                usage_and_bindings_stay_until_they_are_changed
                any_number_of_turns_fits_one_append;
            attachments:
                attaching_directs_what_to_send
                attaching_again_for_the_same_request_is_once
                attaching_follows_the_open_stream
                the_route_switches_after_the_head
                a_connection_stream_must_watch_before_it_is_attached
                a_one_shot_load_is_answered_in_its_own_body
                the_directory_must_be_the_sessions_own
                a_session_that_is_not_ones_own_cannot_be_attached
                what_a_load_brings_is_used_from_then_on
                who_reads_along_changes_nothing;
            claims:
                a_claim_brings_all_that_a_worker_needs
                a_claim_is_exclusive
                a_repeated_claim_succeeds_again
                nothing_to_do_is_nothing_to_claim
                another_agents_session_is_out_of_reach
                any_takes_the_longest_waiting
                any_passes_over_what_was_claimed_by_name;
            closing:
                a_closed_session_takes_only_what_ends_things
                a_closed_session_is_forked_unless_it_is_to_be_open
                what_was_asked_before_it_closed_is_joined
                a_refused_close_closes_nothing
                loading_opens_a_closed_session
                a_closed_session_is_not_opened_by_who_needs_an_open_one
                a_closed_session_is_watched_until_everything_was_heard
                a_fork_of_a_closed_session_is_open;
            control:
                a_prompt_takes_control_as_soon_as_it_waits
                a_repeated_prompt_takes_nothing_back
                only_a_prompt_that_is_taken_takes_control
                control_is_passed_on_by_the_log;
            deletions:
                nobody_finds_what_was_deleted
                streams_of_a_deleted_session_learn_of_it
                what_is_not_ones_own_cannot_be_deleted
                a_deleted_session_without_work_wakes_nobody
                the_holder_of_a_deleted_session_has_the_last_word
                a_deleted_session_that_waits_is_brought_to_an_end
                what_is_bound_to_a_deleted_session_can_be_released
                what_is_bound_to_an_expired_session_can_be_released;
            forks:
                a_fork_reads_as_its_parent_did
                a_fork_goes_its_own_way
                a_fork_knows_what_its_parent_knew
                a_fork_takes_over_nothing_that_waits
                a_fork_is_its_makers
                a_fork_leaves_out_the_turn_that_runs
                a_fork_of_a_first_turn_has_everything_before_it
                a_fork_from_the_middle_knows_only_the_log
                a_cut_is_in_the_log_and_not_in_the_turn_that_runs
                forking_again_changes_nothing
                what_is_not_ones_own_cannot_be_forked
                forks_of_forks_read_as_one
                a_family_has_only_so_many_generations
                bindings_are_inherited_only_when_asked_for
                a_setup_is_inherited_or_replaced
                a_parent_that_rests_is_read_by_its_forks
                a_log_stays_as_long_as_forks_need_it
                a_fork_outlives_its_deleted_parent;
            inbox:
                creating_a_session_twice_changes_nothing
                the_creating_command_can_be_joined
                a_command_is_accepted_with_number_head_and_way
                the_same_request_joins_the_first
                what_is_for_a_session_at_rest_is_taken_by_no_other
                a_key_used_for_something_else_is_a_conflict
                an_unknown_or_foreign_session_is_not_found
                commands_wait_in_order
                a_command_arrives_as_it_was_sent
                a_request_is_recognised_whatever_its_id
                a_full_inbox_takes_only_what_ends_things
                old_keys_are_forgotten_one_by_one
                nobody_pushes_out_the_keys_of_others
                keys_outlive_a_rest
                an_acknowledgement_names_its_command
                a_command_that_waits_is_recognised_however_old
                an_inbox_is_as_long_as_the_asker_says
                what_is_about_an_unknown_request_is_not_found
                a_request_is_found_by_its_connection;
            leases:
                a_lease_that_ran_out_is_taken_over
                a_running_turn_is_handed_over
                only_holders_that_vanished_in_a_row_are_counted
                a_renewal_proves_that_a_holder_lived
                waiting_for_an_answer_is_not_working
                only_who_may_takes_over
                a_finished_turn_is_not_handed_over
                any_finds_what_ran_out_and_what_waits
                a_lease_that_ran_out_is_found_without_any_command
                nobody_else_came_so_the_holder_goes_on
                renewing_reports_what_was_lost
                a_renewed_lease_hides_nobody_who_waits
                a_late_renewal_tells_the_holder_what_it_missed;
            lists:
                the_latest_comes_first
                only_the_end_of_a_turn_is_a_change
                a_list_goes_on_where_it_ended
                a_list_may_be_of_one_directory
                nobody_sees_what_others_have
                a_list_tells_what_a_session_is_about
                what_is_gone_is_not_listed;
            logs:
                reading_starts_with_the_frame_that_holds_the_event
                events_are_read_as_they_were_written
                heads_are_told_for_many_logs_at_once
                an_unknown_log_is_empty
                large_frames_are_signalled_and_read
                a_log_is_read_between_two_events
                a_page_is_bounded_in_bytes_and_never_empty
                what_rests_is_read_in_pages_however_small_it_became
                a_page_of_an_outbox_is_bounded_in_bytes;
            moves:
                a_record_holds_all_but_the_log
                a_record_is_between_two_turns
                a_record_says_where_modes_and_options_changed
                an_adopted_session_appears_when_it_is_complete
                a_log_from_elsewhere_is_history
                an_id_that_is_taken_cannot_be_adopted
                only_its_holder_publishes_a_session
                nobody_else_takes_what_is_being_adopted
                an_adoption_that_is_given_up_is_forgotten
                adopting_and_publishing_can_be_repeated
                what_is_adopted_may_share_a_log
                only_a_log_of_its_own_principal_is_shared;
            outbox:
                posts_are_numbered_from_one
                a_repeated_post_returns_the_first
                a_post_key_used_for_something_else_is_a_conflict
                outboxes_do_not_mix
                old_post_keys_are_forgotten
                no_two_posts_look_the_same
                what_was_delivered_leaves_the_outbox
                what_was_not_delivered_stays_in_the_outbox
                sessions_are_watched_whatever_leaves_the_outbox
                a_session_that_a_stream_has_left_is_not_watched
                a_post_that_has_left_the_outbox_is_still_known
                a_post_says_which_entry_it_is
                positions_are_counted_for_themselves
                few_positions_push_nothing_out_of_the_outbox
                an_outbox_that_nobody_reads_takes_no_more
                a_client_is_described_by_its_connection;
            releases:
                an_append_gives_up_only_what_has_no_work
                a_releasing_append_can_be_repeated
                a_releasing_append_without_events_can_be_repeated
                a_released_session_goes_on_elsewhere_at_once
                only_the_holder_releases
                releasing_without_work_wakes_nobody;
            revocations:
                what_is_revoked_is_listed
                every_listener_hears_of_it
                revoking_again_changes_nothing
                the_later_revocation_stays
                generations_of_a_family_are_revoked_one_by_one
                what_has_ended_is_forgotten
                many_are_listed_as_well
                many_logouts_of_one_caller_become_one
                beyond_its_budget_no_token_is_renewed;
            routes:
                the_creator_reads_from_the_first_event_on
                a_turn_switches_route_and_controller
                a_turn_on_the_same_stream_switches_nothing
                a_one_shot_turn_gives_the_route_back
                one_shot_turns_in_a_row_give_the_route_back
                a_one_shot_turn_right_after_attaching_gives_the_route_back
                many_switches_leave_the_latest
                a_connection_that_was_only_answered_in_a_body_leaves_nothing;
            signals:
                frames_are_signalled_whole_and_in_order
                only_what_was_written_is_signalled
                an_attached_connection_is_signalled
                a_taken_session_stream_is_signalled
                a_taken_connection_stream_is_signalled
                a_post_is_signalled
                work_wakes_those_who_wait_for_it
                a_command_wakes_the_holder_and_nobody_else
                a_holder_hears_of_other_settings_before_what_comes_then
                a_joined_request_wakes_nobody
                nothing_is_heard_after_unsubscribing
                a_topic_can_be_taken_up_again
                every_listener_hears
                a_full_sink_is_told_that_it_missed_something;
            reports:
                the_last_report_of_a_process_counts_as_long_as_it_lasts
                a_process_hears_what_it_is_asked_with_its_next_report
                who_holds_a_session_is_told_to_its_owner;
            spending:
                a_name_is_spent_once
                of_many_who_spend_at_once_one_is_first
                what_was_spent_is_forgotten_when_its_time_is_over;
            storage:
                what_a_session_keeps_is_counted_and_given_back
                a_step_that_is_repeated_counts_once
                what_rests_counts_as_what_is_left_of_it
                what_waits_and_a_running_turn_count
                a_fork_counts_without_what_it_shares
                what_forks_share_counts_until_nobody_needs_it
                a_session_from_elsewhere_counts_once_it_is_there
                what_nobody_uses_is_given_back;
            streams:
                commands_follow_the_open_stream
                a_stream_matters_only_to_its_own_connection
                an_old_holder_changes_nothing
                what_was_written_is_known_to_the_next_holder
                the_last_word_of_an_earlier_holder_counts
                a_stream_opens_with_what_the_session_knows
                an_unknown_or_foreign_session_has_no_stream
                a_connection_stream_must_watch_before_it_is_answered
                a_session_stream_needs_no_watching
                what_expects_no_answer_needs_no_stream
                a_one_shot_changes_nothing_about_its_connection;
            tidying:
                every_event_reads_the_same_afterwards
                a_long_log_reads_the_same_afterwards
                a_tidied_session_goes_on
                a_held_session_keeps_all_it_needs
                what_a_session_shows_is_still_there
                a_request_is_still_recognised_afterwards
                what_nobody_uses_is_forgotten
                what_somebody_uses_is_kept;
            turns:
                a_prompt_goes_in_and_its_answer_comes_out_once
                a_turn_survives_the_worker_that_ran_it;
            usage:
                sessions_count_as_long_as_they_are_there
                a_turn_counts_from_its_prompt_to_its_end
                a_session_that_only_rests_at_its_worker_is_no_turn
                a_caller_at_its_limit_adds_only_to_what_works
                only_repetitions_are_taken_of_a_caller_that_hurries;
        }
    };
}

/// Every case with its name.
pub fn cases() -> Vec<(&'static str, ConformanceCase)> {
    macro_rules! list {
        ($($room:ident: $($case:ident)*;)*) => {
            vec![$($((concat!(stringify!($room), "::", stringify!($case)), |store| Box::pin($room::$case(store)))),*),*]
        };
    }
    for_each_case!(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_case_is_forgotten() {
        let rooms = [
            include_str!("conformance/agents.rs"),
            include_str!("conformance/appends.rs"),
            include_str!("conformance/attachments.rs"),
            include_str!("conformance/claims.rs"),
            include_str!("conformance/closing.rs"),
            include_str!("conformance/control.rs"),
            include_str!("conformance/deletions.rs"),
            include_str!("conformance/forks.rs"),
            include_str!("conformance/inbox.rs"),
            include_str!("conformance/leases.rs"),
            include_str!("conformance/lists.rs"),
            include_str!("conformance/logs.rs"),
            include_str!("conformance/moves.rs"),
            include_str!("conformance/outbox.rs"),
            include_str!("conformance/releases.rs"),
            include_str!("conformance/revocations.rs"),
            include_str!("conformance/routes.rs"),
            include_str!("conformance/signals.rs"),
            include_str!("conformance/reports.rs"),
            include_str!("conformance/spending.rs"),
            include_str!("conformance/storage.rs"),
            include_str!("conformance/streams.rs"),
            include_str!("conformance/tidying.rs"),
            include_str!("conformance/turns.rs"),
            include_str!("conformance/usage.rs"),
        ];
        let written: usize = rooms
            .iter()
            .map(|room| room.matches("pub async fn ").count())
            .sum();
        assert_eq!(cases().len(), written);
    }
}
