//! The store on Redis passes every case, each with a server of its own.

use crate::support::{RedisServer, bounded};

macro_rules! each_on_redis {
    ($($room:ident: $($case:ident)*;)*) => {
        $(mod $room {
            $(#[tokio::test]
            async fn $case() -> anyhow::Result<()> {
                let server = super::RedisServer::start().await?;
                let store = server.store().await?;
                super::bounded(baton_session::conformance::$room::$case(&store)).await;
                Ok(())
            })*
        })*
    };
}

baton_session::for_each_case!(each_on_redis);
