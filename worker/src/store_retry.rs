//! Steps of the store that are repeated while it is unavailable.

use std::time::Duration;

use baton_session::store;
use tokio::time::sleep;

const MAX_RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Repeats a step while the store is away.
pub(crate) async fn retry_while_unavailable<T, F>(step: impl Fn() -> F) -> store::Result<T>
where
    F: Future<Output = store::Result<T>>,
{
    let mut pause = Duration::from_millis(10);
    loop {
        match step().await {
            Err(store::Error::Unavailable(_)) => sleep(pause).await,
            outcome => return outcome,
        }
        pause = (pause * 2).min(MAX_RETRY_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn a_store_that_is_away_is_waited_for() {
        let tries = Cell::new(0);
        let step = async || {
            tries.set(tries.get() + 1);
            match tries.get() {
                4 => Ok("there"),
                _ => Err(store::Error::Unavailable("away".into())),
            }
        };
        assert_eq!(retry_while_unavailable(&step).await.unwrap(), "there");
        let broken =
            retry_while_unavailable(async || Err::<(), _>(store::Error::Broken("for good".into())));
        assert!(broken.await.is_err());
    }
}
