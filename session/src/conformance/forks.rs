//! Forks: a child shares its parent's log up to a point, and from there on nothing.

use std::sync::Arc;

use bytes::Bytes;

use super::scene::{CWD, EVERYTHING_THAT_RESTS, LONG, Scene, begin, end, enqueued, said, updates};
use crate::route::DeliveryPath;
use crate::store::{
    AppendRequest, AttachOutcome, AttachParams, EnqueueOutcome, EnqueueRequest, ForkOutcome,
    ForkRequest, MAX_FORK_DEPTH, NewSession, SessionSetup, Store,
};

/// A session that has talked twice: its log has six events.
async fn talked(store: &Arc<dyn Store>) -> Scene {
    let scene = Scene::created(store).await;
    scene.talk("one").await;
    scene.talk("two").await;
    scene
}

fn done(head: u64, view: &'static str) -> ForkOutcome {
    let view = Bytes::from_static(view.as_bytes());
    ForkOutcome::Done { head, view }
}

pub async fn a_fork_reads_as_its_parent_did(store: &Arc<dyn Store>) {
    let parent = talked(store).await;
    let child = parent.heir();
    let outcome = parent.try_fork(&parent.fork(&child)).await;
    assert_eq!(outcome, done(6, "two"));
    assert_eq!(child.head().await, 6);
    assert_eq!(child.words().await, ["one", "two"]);
    let (of_parent, of_child) = (parent.events(1).await, child.events(1).await);
    assert_eq!(of_parent.len(), 6);
    for ((number, nonce, before), (seq, of, after)) in of_parent.iter().zip(&of_child) {
        assert_eq!((number, nonce, before.size()), (seq, of, after.size()));
    }
    for from in 1..=7 {
        let rest = child.events(from).await;
        assert_eq!(rest, of_child[from as usize - 1..], "from {from}");
    }
    assert!(store.read(&child.log(), 1, 0).await.unwrap().is_empty());
    assert_eq!(store.read(&child.log(), 1, 1).await.unwrap().len(), 1);
}

pub async fn a_fork_goes_its_own_way(store: &Arc<dyn Store>) {
    let parent = talked(store).await;
    let child = parent.forked().await;
    parent.talk("three").await;
    child.talk("other").await;
    assert_eq!(parent.words().await, ["one", "two", "three"]);
    assert_eq!(child.words().await, ["one", "two", "other"]);
    assert_eq!((parent.head().await, child.head().await), (9, 9));
    let numbers = child.events(1).await.into_iter().map(|(seq, ..)| seq);
    assert_eq!(numbers.collect::<Vec<_>>(), (1..=9).collect::<Vec<_>>());
}

pub async fn a_fork_knows_what_its_parent_knew(store: &Arc<dyn Store>) {
    let parent = talked(store).await;
    store.enqueue(&parent.prompt("3")).await.unwrap();
    let token = parent.claim().await.token;
    let named = AppendRequest {
        title: Some("A title".into()),
        usage: Some("{\"used\":1}".into()),
        ..parent.append(&token, 7, Vec::new())
    };
    parent.write(&named).await;
    let child = parent.heir();
    let fork = ForkRequest {
        cwd: "/elsewhere".into(),
        ..parent.fork(&child)
    };
    assert_eq!(parent.try_fork(&fork).await, done(6, "two"));
    let summary = child.summary().await;
    assert_eq!((&*summary.cwd, &*summary.title), ("/elsewhere", "A title"));
    assert_eq!(summary.usage, "{\"used\":1}");
    store.enqueue(&child.prompt("1")).await.unwrap();
    let claim = child.claim().await;
    assert_eq!((claim.head, &claim.state[..]), (6, &b"two"[..]));
    assert_eq!((&*claim.cwd, claim.running), ("/elsewhere", None));
    assert_eq!(claim.params, parent.new_session().params);
    assert_eq!(claim.vanished.at_once, 0);
}

pub async fn a_fork_takes_over_nothing_that_waits(store: &Arc<dyn Store>) {
    let parent = talked(store).await;
    let prompt = parent.prompt("3");
    store.enqueue(&prompt).await.unwrap();
    parent.claim().await;
    let child = parent.forked().await;
    assert!(store.inbox(&child.id, &[]).await.unwrap().is_empty());
    assert!(child.try_claim(&child.claimant(LONG)).await.is_none());
    let mut same = child.prompt("3");
    same.key = prompt.key;
    let accepted = enqueued(store.enqueue(&same).await.unwrap());
    assert_eq!(accepted, ("accepted", 1, 6, DeliveryPath::Connection));
    assert_eq!(child.claim().await.inbox.len(), 1);
}

pub async fn a_fork_is_its_makers(store: &Arc<dyn Store>) {
    let parent = talked(store).await;
    let child = parent.forked().await;
    let maker = child.attachment(&child.creator).await;
    assert_eq!(
        (maker.head, maker.controller),
        (6, Some(child.creator.clone()))
    );
    assert_eq!(
        (maker.route.at(6), maker.route.at(7)),
        (None, Some(DeliveryPath::Connection))
    );
    assert!(maker.directives.is_empty() && maker.pending.is_empty());
    let other = child.attachment(&parent.creator).await;
    assert_eq!(other.route.joined(), None);
    let of_parent = parent.attachment(&child.creator).await;
    assert_eq!(of_parent.route.joined(), None);
    assert_eq!(of_parent.controller, Some(parent.creator.clone()));
    // Nobody has told the holder of its connection stream yet.
    let unwatched = EnqueueRequest {
        watched: false,
        ..child.prompt("1")
    };
    let outcome = store.enqueue(&unwatched).await.unwrap();
    assert_eq!(outcome, EnqueueOutcome::Unwatched { head: 6 });
    let load = AttachParams {
        watched: false,
        ..child.attach(&child.creator, "2")
    };
    let outcome = store.attach(&load).await.unwrap();
    assert_eq!(outcome, AttachOutcome::Unwatched { head: 6 });
    let accepted = enqueued(store.enqueue(&child.prompt("1")).await.unwrap());
    assert_eq!(accepted, ("accepted", 1, 6, DeliveryPath::Connection));
}

pub async fn a_fork_leaves_out_the_turn_that_runs(store: &Arc<dyn Store>) {
    let parent = talked(store).await;
    store.enqueue(&parent.prompt("3")).await.unwrap();
    let token = parent.claim().await.token;
    let field = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
    let begun = AppendRequest {
        view: field("begun"),
        ..parent.append(
            &token,
            7,
            vec![begin(3, &parent.creator, DeliveryPath::Connection)],
        )
    };
    parent.write(&begun).await;
    for (first, knows) in [(8, "half"), (9, "more")] {
        let half = AppendRequest {
            state: field(knows),
            view: field(knows),
            ..parent.append(&token, first, vec![said(&parent.id, knows)])
        };
        parent.write(&half).await;
    }
    let early = parent.heir();
    let outcome = parent.try_fork(&parent.fork(&early)).await;
    assert_eq!(outcome, done(6, "two"));
    assert_eq!(parent.attachment(&parent.creator).await.view, "more");
    let over = AppendRequest {
        acks: parent.named(&[3]).await,
        ..parent.append(
            &token,
            10,
            vec![end(&parent.creator, DeliveryPath::Connection)],
        )
    };
    parent.write(&over).await;
    let late = parent.heir();
    let outcome = parent.try_fork(&parent.fork(&late)).await;
    assert_eq!(outcome, done(10, "more"));
    for (fork, knows, words) in [(&early, "two", 2), (&late, "more", 4)] {
        store.enqueue(&fork.prompt("1")).await.unwrap();
        assert_eq!(fork.claim().await.state, knows);
        assert_eq!(fork.words().await.len(), words);
    }
}

pub async fn a_fork_of_a_first_turn_has_everything_before_it(store: &Arc<dyn Store>) {
    let parent = Scene::created(store).await;
    let token = parent.claim().await.token;
    let begun = AppendRequest {
        state: Some("begun".into()),
        ..parent.append(
            &token,
            1,
            vec![begin(1, &parent.creator, DeliveryPath::Connection)],
        )
    };
    parent.write(&begun).await;
    let child = parent.heir();
    assert_eq!(parent.try_fork(&parent.fork(&child)).await, done(0, ""));
    assert_eq!((child.head().await, child.events(1).await.len()), (0, 0));
    child.talk("first").await;
    assert_eq!(child.words().await, ["first"]);
    assert_eq!(parent.words().await, [""; 0]);
}

pub async fn a_fork_from_the_middle_knows_only_the_log(store: &Arc<dyn Store>) {
    let parent = talked(store).await;
    for (upto, words) in [(0, 0), (1, 0), (2, 1), (3, 1), (5, 2), (6, 2)] {
        let child = parent.heir();
        let outcome = parent.try_fork(&parent.cut(&child, upto, "then")).await;
        assert_eq!(outcome, done(upto, "then"));
        assert_eq!(child.head().await, upto);
        assert_eq!(child.events(1).await.len() as u64, upto);
        assert_eq!(child.words().await.len(), words, "up to {upto}");
        assert_eq!(child.attachment(&child.creator).await.view, "then");
        child.talk("more").await;
        assert_eq!(child.words().await.len(), words + 1);
        assert_eq!(child.head().await, upto + 3);
    }
    let child = parent.heir();
    parent.try_fork(&parent.cut(&child, 6, "then")).await;
    store.enqueue(&child.prompt("1")).await.unwrap();
    let claim = child.claim().await;
    assert_eq!((claim.head, &claim.state[..]), (6, &b""[..]));
}

pub async fn a_cut_is_in_the_log_and_not_in_the_turn_that_runs(store: &Arc<dyn Store>) {
    let parent = talked(store).await;
    store.enqueue(&parent.prompt("3")).await.unwrap();
    let token = parent.claim().await.token;
    let child = parent.heir();
    let refused = async |upto| {
        let outcome = parent.try_fork(&parent.cut(&child, upto, "")).await;
        assert_eq!(outcome, ForkOutcome::NoSuchCut, "up to {upto}");
    };
    refused(7).await;
    let mut events = vec![begin(3, &parent.creator, DeliveryPath::Connection)];
    events.extend(updates(2));
    parent.write(&parent.append(&token, 7, events)).await;
    for upto in [7, 8, 9, 10] {
        refused(upto).await;
    }
    let found = store
        .attachment(&child.id, &child.creator, &child.principal)
        .await;
    assert_eq!(found.unwrap(), None);
    parent.lists_only(&parent).await;
    let outcome = parent.try_fork(&parent.cut(&child, 6, "")).await;
    assert_eq!(outcome, done(6, ""));
}

pub async fn forking_again_changes_nothing(store: &Arc<dyn Store>) {
    let parent = talked(store).await;
    let child = parent.heir();
    let fork = parent.fork(&child);
    assert_eq!(parent.try_fork(&fork).await, done(6, "two"));
    parent.talk("three").await;
    assert_eq!(parent.try_fork(&fork).await, done(6, "two"));
    store.enqueue(&child.prompt("1")).await.unwrap();
    let events = vec![said(&child.id, "mine")];
    let token = child.claim().await.token;
    let changed = AppendRequest {
        view: Some("mine".into()),
        ..child.append(&token, 7, events)
    };
    child.write(&changed).await;
    assert_eq!(parent.try_fork(&fork).await, done(6, "two"));
    assert_eq!(child.words().await, ["one", "two", "mine"]);
    assert_eq!(parent.listed().await.len(), 2);
}

pub async fn what_is_not_ones_own_cannot_be_forked(store: &Arc<dyn Store>) {
    let (parent, stranger) = (talked(store).await, Scene::planned(store));
    let child = stranger.heir();
    let unknown = stranger.try_fork(&stranger.fork(&child)).await;
    assert_eq!(unknown, ForkOutcome::NotFound);
    let child = parent.heir();
    let foreign = ForkRequest {
        principal: stranger.principal.clone(),
        ..parent.fork(&child)
    };
    assert_eq!(parent.try_fork(&foreign).await, ForkOutcome::NotFound);
    assert_eq!((child.head().await, stranger.listed().await.len()), (0, 0));
}

pub async fn forks_of_forks_read_as_one(store: &Arc<dyn Store>) {
    let mut family = vec![talked(store).await];
    let mut words = vec!["one".to_owned(), "two".to_owned()];
    for generation in 0..16 {
        let child = family.last().expect("a parent").forked().await;
        // Every third has nothing of its own to add.
        if generation % 3 != 0 {
            let new = format!("generation {generation}");
            child.talk(&new).await;
            words.push(new);
        }
        assert_eq!(child.words().await, words);
        assert_eq!(child.head().await, words.len() as u64 * 3);
        family.push(child);
    }
    let youngest = family.last().expect("a child");
    let all = youngest.events(1).await;
    for from in 1..=all.len() {
        assert_eq!(youngest.events(from as u64).await, all[from - 1..]);
    }
    // A cut that lies far behind the parent's own part of the log.
    for upto in [0, 2, 6, 8, 20] {
        let child = youngest.heir();
        let outcome = youngest.try_fork(&youngest.cut(&child, upto, "")).await;
        assert_eq!(outcome, done(upto, ""));
        assert_eq!(child.events(1).await.len() as u64, upto);
        child.talk("late").await;
        assert_eq!(child.words().await.last().map(String::as_str), Some("late"));
        assert_eq!(child.head().await, upto + 3);
    }
}

pub async fn a_family_has_only_so_many_generations(store: &Arc<dyn Store>) {
    let mut youngest = talked(store).await;
    for _ in 0..MAX_FORK_DEPTH {
        youngest = youngest.forked().await;
    }
    assert_eq!(youngest.words().await, ["one", "two"]);
    let child = youngest.heir();
    let outcome = youngest.try_fork(&youngest.fork(&child)).await;
    assert_eq!(outcome, ForkOutcome::TooDeep);
    assert_eq!(youngest.listed().await.len(), MAX_FORK_DEPTH + 1);
}

pub async fn bindings_are_inherited_only_when_asked_for(store: &Arc<dyn Store>) {
    let parent = Scene::created(store).await;
    let token = parent.claim().await.token;
    let bound = AppendRequest {
        bound: Some("{\"a\":\"b\"}".into()),
        ..parent.append(&token, 1, Vec::new())
    };
    parent.write(&bound).await;
    for (inherit_bindings, expected) in [(false, ""), (true, "{\"a\":\"b\"}")] {
        let child = parent.heir();
        let fork = ForkRequest {
            inherit_bindings,
            ..parent.fork(&child)
        };
        assert_eq!(parent.try_fork(&fork).await, done(0, ""));
        store.enqueue(&child.prompt("1")).await.unwrap();
        assert_eq!(child.claim().await.bound, expected);
    }
}

pub async fn a_setup_is_inherited_or_replaced(store: &Arc<dyn Store>) {
    let parent = Scene::planned(store);
    let new = NewSession {
        directories: "[\"/a\"]".into(),
        ..parent.new_session()
    };
    let key = parent.request(parent.first()).key;
    store.create(&new, &parent.first(), &key).await.unwrap();
    let servers = Some(Bytes::from_static(b"[1]"));
    let child = parent.heir();
    let fork = ForkRequest {
        setup: SessionSetup {
            mcp_servers: servers.clone(),
            directories: None,
        },
        ..parent.fork(&child)
    };
    parent.try_fork(&fork).await;
    let grandchild = child.heir();
    let fork = ForkRequest {
        setup: SessionSetup {
            mcp_servers: None,
            directories: Some("[]".into()),
        },
        ..child.fork(&grandchild)
    };
    child.try_fork(&fork).await;
    assert_eq!(child.summary().await.directories, "[\"/a\"]");
    for (fork, directories) in [(child, "[\"/a\"]"), (grandchild, "[]")] {
        store.enqueue(&fork.prompt("1")).await.unwrap();
        let setup = fork.claim().await.setup;
        assert_eq!(setup.mcp_servers, servers);
        assert_eq!(setup.directories.expect("given"), directories);
    }
    assert_eq!(parent.claim().await.setup.mcp_servers, None);
    assert_eq!(parent.summary().await.cwd, CWD);
}

pub async fn a_parent_that_rests_is_read_by_its_forks(store: &Arc<dyn Store>) {
    let parent = talked(store).await;
    let child = parent.forked().await;
    child.talk("three").await;
    let grandchild = child.forked().await;
    let all = grandchild.events(1).await;
    parent.tidy(&EVERYTHING_THAT_RESTS).await;
    for from in 1..=10 {
        assert_eq!(grandchild.events(from).await, all[from as usize - 1..]);
    }
    let late = parent.forked().await;
    assert_eq!(late.words().await, ["one", "two"]);
    grandchild.talk("four").await;
    assert_eq!(grandchild.words().await, ["one", "two", "three", "four"]);
    assert_eq!(grandchild.events(1).await[..9], all);
}

pub async fn a_log_stays_as_long_as_forks_need_it(store: &Arc<dyn Store>) {
    let parent = talked(store).await;
    let child = parent.forked().await;
    child.talk("three").await;
    let grandchild = child.forked().await;
    // Kept by being listened to.
    grandchild.open_stream(&grandchild.creator, "a").await;
    assert!(parent.delete().await);
    grandchild.forget().await;
    parent.lists_only(&grandchild).await;
    assert_eq!(grandchild.words().await, ["one", "two", "three"]);
    let more = grandchild.forked().await;
    assert_eq!(more.words().await, ["one", "two", "three"]);
    let touch = grandchild.touch(&grandchild.creator, "a", None);
    store.close_stream(&touch).await.unwrap();
    grandchild.forget().await;
    for gone in [&parent, &child, &grandchild, &more] {
        assert_eq!(gone.events(1).await, []);
        assert_eq!(gone.head().await, 0);
    }
    assert_eq!(parent.listed().await, []);
}

pub async fn a_fork_outlives_its_deleted_parent(store: &Arc<dyn Store>) {
    let parent = talked(store).await;
    let child = parent.forked().await;
    child.open_stream(&child.creator, "a").await;
    assert!(parent.delete().await);
    parent.forget().await;
    parent.lists_only(&child).await;
    child.talk("three").await;
    assert_eq!(child.words().await, ["one", "two", "three"]);
    // Gone is gone, whatever is left of its log.
    let again = parent.heir();
    let outcome = parent.try_fork(&parent.fork(&again)).await;
    assert_eq!(outcome, ForkOutcome::NotFound);
}
