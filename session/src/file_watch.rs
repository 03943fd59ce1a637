//! Files that may change while a process runs: keys, certificates, callers.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::audit::{AuditActor, AuditLog, Decision, DecisionOutcome};

const PERIOD: Duration = Duration::from_secs(1);

/// Looks for changes until `stop`, and says once what it finds. `refresh` tells whether there was a
/// change; after an error what was there before stays.
pub async fn follow(
    what: &'static str,
    stop: CancellationToken,
    audit: AuditLog,
    refresh: impl Fn() -> Result<bool, String> + Clone + Send + 'static,
) {
    let mut state = WatchState::default();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
        // The files may be on a network.
        let Ok(refreshed) = tokio::task::spawn_blocking(refresh.clone()).await else {
            return;
        };
        match state.news(refreshed) {
            None => {}
            Some(Ok(())) => {
                audited(&audit, what, DecisionOutcome::Done);
                tracing::info!(what, "read again");
            }
            Some(Err(fault)) => {
                audited(&audit, what, DecisionOutcome::Failed);
                tracing::warn!(what, %fault, "reload failed: keeping the previous version");
            }
        }
    }
}

fn audited(audit: &AuditLog, what: &str, outcome: DecisionOutcome) {
    let decision = Decision::KeysReloaded { what: what.into() };
    audit.record(&decision, outcome, &AuditActor::default());
}

/// The last fault that was logged, so that each is logged once.
#[derive(Default)]
struct WatchState {
    fault: Option<String>,
}

impl WatchState {
    fn news(&mut self, refreshed: Result<bool, String>) -> Option<Result<(), String>> {
        let (changed, fault) = match refreshed {
            Ok(changed) => (changed, None),
            Err(fault) => (false, Some(fault)),
        };
        let told = std::mem::replace(&mut self.fault, fault.clone());
        match (told == fault, fault) {
            (true, _) if !changed => None,
            (_, Some(fault)) => Some(Err(fault)),
            (_, None) => Some(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_to_a_file_is_said_once() {
        let mut state = WatchState::default();
        let fault = |text: &str| Err::<bool, _>(text.to_owned());
        for (refreshed, said) in [
            (Ok(false), None),
            (Ok(true), Some(Ok(()))),
            (Ok(true), Some(Ok(()))),
            (Ok(false), None),
            (fault("a"), Some(Err("a".to_owned()))),
            (fault("a"), None),
            (fault("b"), Some(Err("b".to_owned()))),
            (fault("b"), None),
            // The old file was put back.
            (Ok(false), Some(Ok(()))),
            (Ok(false), None),
            (fault("b"), Some(Err("b".to_owned()))),
            (Ok(true), Some(Ok(()))),
        ] {
            assert_eq!(state.news(refreshed), said);
        }
    }
}
