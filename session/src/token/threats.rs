//! Attacks on tokens, in the order and with the numbers of the threat table that the tokens were
//! designed against. Each token here that is refused is as good as a valid one in every respect but
//! the one in question: signed with the right key, in the right form, at the right time.

use jsonwebtoken::crypto::sign;
use serde_json::{Value, json};

use super::*;
use crate::command::ClientCapabilities;
use crate::id::{ConnectionId, Partition, SessionId};
use crate::list_position::ListPosition;

mod claims;
mod forgery;
mod form;
mod header;
mod weak_keys;

const ALGORITHMS: [Algorithm; 3] = [Algorithm::HS256, Algorithm::EdDSA, Algorithm::ES256];
const NOW: u64 = 1_800_000_000;

fn ring(algorithm: Algorithm) -> KeyRing {
    KeyRing::parse(&generate(algorithm)).unwrap()
}

fn grant(principal: &str) -> SessionGrant {
    SessionGrant {
        session: SessionId::mint(Partition(3)),
        principal: principal.into(),
        owner: None,
        scope: TokenScope::Control,
        family: "abcdefgh".into(),
        generation: 0,
        issued: NOW,
        expires: NOW + SESSION_LIFETIME.as_secs(),
    }
}

fn connection(principal: &str, issued: u64) -> ConnectionToken {
    ConnectionToken {
        id: ConnectionId::mint(Partition(3)),
        principal: principal.into(),
        protocol_version: 1,
        client: ClientCapabilities::default(),
        agent: None,
        rights: None,
        issued,
        expires: 0,
    }
}

fn place() -> ListPosition {
    ListPosition {
        updated: 1_800_000_000_123,
        session: SessionId::mint(Partition(3)),
    }
}

/// One token of each kind, valid now.
fn kinds(ring: &KeyRing) -> [String; 6] {
    let now = unix_seconds();
    let session = SessionGrant {
        issued: now,
        ..grant("somebody")
    };
    let session = session.renewed(now, SESSION_LIFETIME);
    let connection = connection("somebody", now);
    [
        ring.sign_session(&session).expose().to_owned(),
        ring.sign_connection(&connection, CONNECTION_LIFETIME)
            .expose()
            .to_owned(),
        ring.sign_list_position(&place(), "my list"),
        ring.sign_ticket(&Ticket::new("somebody".into(), now, None))
            .expose()
            .to_owned(),
        ring.sign_login(&LoginToken::new("somebody".into(), now, None))
            .expose()
            .to_owned(),
        ring.sign_attempt(&LoginAttempt::begin("https://baton.example".into()))
            .expose()
            .to_owned(),
    ]
}

fn any_kind_takes(ring: &KeyRing, token: &str) -> bool {
    ring.verify_session(token).is_ok()
        || ring.verify_connection(token).is_ok()
        || ring.verify_list_position(token, "my list").is_ok()
        || ring.verify_ticket(token).is_ok()
        || ring.verify_login(token).is_ok()
        || ring.verify_attempt(token).is_ok()
        || ring.verify_any(token).is_ok()
}

fn header(ring: &KeyRing) -> Value {
    json!({ "typ": session::TYPE, "alg": ring.signing().algorithm, "kid": ring.signing().id })
}

fn claims() -> Value {
    let sid = SessionId::mint(Partition(3));
    json!({
        "aud": "baton", "sid": sid, "prn": "somebody", "scp": "c", "fam": "abcdefgh", "gen": 0,
        "iat": NOW, "exp": NOW + 3600,
    })
}

fn part(json: &str) -> String {
    BASE64URL.encode(json)
}

/// Any header and claims, signed as they are with the ring's own key.
fn signed(ring: &KeyRing, header: &str, claims: &str) -> String {
    let message = format!("{}.{}", part(header), part(claims));
    let key = ring.signing();
    let signature = sign(message.as_bytes(), &key.encoding, key.algorithm).unwrap();
    format!("{message}.{signature}")
}

fn verdict(ring: &KeyRing, token: &str) -> Result<SessionGrant, TokenRefusal> {
    ring.verify_session_at(token, NOW)
}

/// So that what is refused below is refused for its own reason.
#[test]
fn what_these_tests_sign_is_good_unless_they_change_something() {
    for algorithm in ALGORITHMS {
        let ring = ring(algorithm);
        let token = signed(&ring, &header(&ring).to_string(), &claims().to_string());
        assert!(verdict(&ring, &token).is_ok());
        for token in kinds(&ring) {
            assert!(any_kind_takes(&ring, &token));
        }
    }
}

/// For people who look at one: what it is, and what is written in it, for how long.
#[test]
fn every_kind_is_known_by_its_name_and_can_be_read() {
    let ring = ring(Algorithm::HS256);
    let kinds_and_lives = [
        ("session", 3600),
        ("connection", 24 * 3600),
        ("place in a list", 24 * 3600),
        ("ticket", 30),
        ("login", 12 * 3600),
    ];
    for (token, (kind, life)) in kinds(&ring).iter().zip(kinds_and_lives) {
        assert_eq!(ring.verify_any(token), Ok(kind));
        let [header, claims] = unverified(token).unwrap();
        assert_eq!(header["kid"], ring.signing().id);
        let time = |claim: &str| claims[claim].as_u64().unwrap();
        assert_eq!(time("exp") - time("iat"), life, "{kind}");
        assert!(unverified(&format!("{token}.x")).is_err());
    }
}
