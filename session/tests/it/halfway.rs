//! A step that fails halfway is repeated to a good end. Every case passes on a store that tries each step with its
//! first command failing, then with its second, and so on, before it is taken.

use std::sync::Arc;

use baton_session::store::Store;
use baton_session::store::redis::{RedisOptions, RedisStore};

use crate::support::RedisServer;

async fn failing(server: &RedisServer) -> anyhow::Result<Arc<dyn Store>> {
    let options = RedisOptions {
        fails_halfway: true,
        ..RedisOptions::new(&server.url(), "halfway")
    };
    Ok(Arc::new(RedisStore::connect_with(&options).await?))
}

macro_rules! each_halfway {
    ($($room:ident: $($case:ident)*;)*) => {
        $(mod $room {
            $(#[tokio::test]
            async fn $case() -> anyhow::Result<()> {
                let server = super::RedisServer::start().await?;
                let store = super::failing(&server).await?;
                baton_session::conformance::$room::$case(&store).await;
                Ok(())
            })*
        })*
    };
}

baton_session::for_each_case!(each_halfway);
