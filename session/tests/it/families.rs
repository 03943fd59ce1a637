//! Random families on Redis: whoever is there reads the words it inherited and its own, whatever became of its
//! ancestors, and in the end nothing is left.

use std::sync::Arc;

use baton_session::conformance::scene::{EVERYTHING_THAT_RESTS, Scene};
use baton_session::store::{ForkOutcome, Store};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};
use tokio::runtime::Runtime;

use crate::support::{RedisServer, bounded};

/// Members are numbers, taken modulo how many there are.
#[derive(Clone, Debug)]
enum Step {
    Talk(usize),
    Fork(usize),
    /// After so many events, modulo how many there are.
    Cut(usize, usize),
    Rest,
    Delete(usize),
    /// A deleted session is removed, one with a listener is not.
    Forget,
}

fn step() -> impl Strategy<Value = Step> {
    let member = 0..16usize;
    prop_oneof![
        4 => member.clone().prop_map(Step::Talk),
        3 => member.clone().prop_map(Step::Fork),
        3 => (member.clone(), 0..64usize).prop_map(|(member, upto)| Step::Cut(member, upto)),
        2 => Just(Step::Rest),
        2 => member.prop_map(Step::Delete),
        1 => Just(Step::Forget),
    ]
}

struct Member {
    scene: Scene,
    /// One for each event; of those that are words, the words.
    log: Vec<Option<String>>,
}

impl Member {
    fn words(&self) -> Vec<String> {
        self.log.iter().flatten().cloned().collect()
    }
}

async fn take(family: &mut Vec<Member>, at: usize, step: &Step) {
    let count = family.len();
    if count == 0 {
        return;
    }
    match step {
        Step::Rest => _ = family[0].scene.tidy(&EVERYTHING_THAT_RESTS).await,
        Step::Forget => {
            for Member { scene, .. } in family.iter() {
                scene.open_stream(&scene.creator, "a").await;
            }
            family[0].scene.forget().await;
            for Member { scene, .. } in family.iter() {
                let touch = scene.touch(&scene.creator, "a", None);
                scene.store.close_stream(&touch).await.expect("an answer");
            }
        }
        Step::Talk(member) => {
            let Member { scene, log } = &mut family[member % count];
            let words = format!("words {at}");
            scene.talk(&words).await;
            log.extend([None, Some(words), None]);
        }
        Step::Fork(member) | Step::Cut(member, _) => {
            let Member { scene, log } = &family[member % count];
            let child = scene.heir();
            let (fork, upto) = match step {
                Step::Cut(_, upto) => {
                    let upto = upto % (log.len() + 1);
                    (scene.cut(&child, upto as u64, "view"), upto)
                }
                _ => (scene.fork(&child), log.len()),
            };
            let forked = scene.try_fork(&fork).await;
            assert!(matches!(forked, ForkOutcome::Done { head, .. } if head == upto as u64));
            let log = log[..upto].to_vec();
            family.push(Member { scene: child, log });
        }
        Step::Delete(member) => {
            let gone = family.remove(member % count);
            assert!(gone.scene.delete().await);
        }
    }
}

async fn walk(store: &Arc<dyn Store>, server: &RedisServer, steps: &[Step]) -> TestCaseResult {
    let scene = Scene::created(store).await;
    scene.finish(&scene.claim().await.token).await;
    let last = scene.heir();
    let log = Vec::new();
    let mut family = vec![Member { scene, log }];
    for (at, step) in steps.iter().enumerate() {
        take(&mut family, at, step).await;
        for member in &family {
            let found = member.scene.words().await;
            prop_assert_eq!(found, member.words(), "step {}, {:?}", at, step);
            prop_assert_eq!(member.scene.head().await, member.log.len() as u64);
        }
        let mut listed = last.listed().await;
        let mut there: Vec<_> = family
            .iter()
            .map(|member| member.scene.id.clone())
            .collect();
        listed.sort();
        there.sort();
        prop_assert_eq!(listed, there, "step {}, {:?}", at, step);
    }
    for member in &family {
        assert!(member.scene.delete().await);
    }
    last.forget().await;
    let mut left: Vec<String> = server.command(&["KEYS", "*"]).await.expect("an answer");
    // Views belong to whoever shows the same, and expire by themselves.
    left.retain(|key| !key.contains(":v:") && !key.ends_with("{format}:store"));
    prop_assert_eq!(left, [""; 0]);
    Ok(())
}

#[test]
fn a_family_reads_what_it_inherited_and_leaves_nothing() {
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(RedisServer::start()).unwrap();
    let store = runtime.block_on(server.store()).unwrap();
    let config = ProptestConfig {
        cases: 32,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let outcome = TestRunner::new(config).run(&vec(step(), 1..30), |steps| {
        runtime.block_on(bounded(walk(&store, &server, &steps)))
    });
    outcome.unwrap();
}
