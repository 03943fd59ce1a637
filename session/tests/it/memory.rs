//! The store in memory passes every case.

use std::sync::Arc;

use baton_session::store::MemoryStore;
use baton_session::store::Store;

use crate::support::bounded;

macro_rules! each_in_memory {
    ($($room:ident: $($case:ident)*;)*) => {
        $(mod $room {
            $(#[tokio::test]
            async fn $case() {
                let store = super::store();
                super::bounded(baton_session::conformance::$room::$case(&store)).await;
            })*
        })*
    };
}

baton_session::for_each_case!(each_in_memory);

fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}
