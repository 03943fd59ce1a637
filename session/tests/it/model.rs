//! Random walks over one session. The store in memory is held against a model that is written as a
//! history and queries on it; the store on Redis against the store in memory.

use std::sync::Arc;

use baton_session::id::{ConnectionId, Partition, SessionId, random_text};
use baton_session::store::MemoryStore;
use baton_session::store::Store;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};
use tokio::runtime::Runtime;

use self::reference::Reference;
use self::steps::{Cast, Outcome, Step, step};
use crate::support::RedisServer;

mod reference;
mod steps;

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    })
}

/// The same names for everyone who is compared.
fn cast() -> Cast {
    let partition = Partition(0);
    let connections = std::array::from_fn(|_| ConnectionId::mint(partition));
    Cast {
        session: SessionId::mint(partition),
        agent: random_text(8),
        connections,
    }
}

fn same(at: usize, step: &Step, expected: &Outcome, found: &Outcome) -> TestCaseResult {
    prop_assert_eq!(expected, found, "step {}, {:?}", at, step);
    Ok(())
}

#[test]
fn memory_does_what_the_model_says() {
    let runtime = Runtime::new().unwrap();
    let walk = |steps: Vec<Step>| {
        let cast = cast();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let mut model = Reference::new();
        runtime.block_on(async {
            cast.create(&store).await;
            for (at, step) in steps.iter().enumerate() {
                let expected = model.take(step);
                same(at, step, &expected, &cast.take(&store, step).await)?;
                same(at, step, &model.look(), &cast.look(&store).await)?;
            }
            Ok(())
        })
    };
    runner(512).run(&vec(step(), 1..60), walk).unwrap();
}

#[test]
fn redis_does_what_memory_does() {
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(RedisServer::start()).unwrap();
    let redis = runtime.block_on(server.store()).unwrap();
    let walk = |steps: Vec<Step>| {
        let cast = cast();
        let memory: Arc<dyn Store> = Arc::new(MemoryStore::default());
        runtime.block_on(async {
            cast.create(&memory).await;
            cast.create(&redis).await;
            for (at, step) in steps.iter().enumerate() {
                let expected = cast.take(&memory, step).await;
                same(at, step, &expected, &cast.take(&redis, step).await)?;
                same(
                    at,
                    step,
                    &cast.look(&memory).await,
                    &cast.look(&redis).await,
                )?;
            }
            Ok(())
        })
    };
    runner(96).run(&vec(step(), 1..60), walk).unwrap();
}
