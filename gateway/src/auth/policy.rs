//! Rules about claims: which callers may use the gateway, and which of them may use an agent.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use baton_session::store::AgentCard;
use serde_json::{Map, Value};

use super::bearer::digest;
use super::rights::CallerRights;

pub type ClaimMap = Map<String, Value>;

/// Agents that may have rules: so many fit into a login.
const MAX_AGENTS: usize = 256;
/// Claims whose text is a list of words (RFC 8693, section 4.2; Microsoft has the other name).
const WORDS: [&str; 2] = ["scope", "scp"];

/// `CLAIM=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRule {
    claim: String,
    value: String,
}

impl FromStr for ClaimRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((claim, value)) if !claim.trim().is_empty() && !value.is_empty() => Ok(Self {
                claim: claim.to_owned(),
                value: value.to_owned(),
            }),
            _ => Err("write CLAIM=VALUE, such as groups=engineers".into()),
        }
    }
}

impl ClaimRule {
    pub fn claim(&self) -> &str {
        &self.claim
    }

    /// A list holds if the value is one of its entries. A text holds if it is the value: people may
    /// choose their own names, so words are looked for only where a claim is a list of words.
    fn holds(&self, claims: &ClaimMap) -> bool {
        let Some(found) = self.find(claims) else {
            return false;
        };
        let has_words = WORDS.contains(&self.claim.as_str());
        match found {
            Value::String(text) if has_words => text.split(' ').any(|word| word == self.value),
            Value::Array(entries) => entries.iter().any(|entry| self.is(entry)),
            value => self.is(value),
        }
    }

    fn is(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => *text == self.value,
            Value::Bool(truth) => self.value == if *truth { "true" } else { "false" },
            Value::Number(number) => self.value == number.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => false,
        }
    }

    /// A claim of that very name, which may be a URL, else the one at the end of a path.
    fn find<'a>(&self, claims: &'a ClaimMap) -> Option<&'a Value> {
        if let Some(found) = claims.get(&self.claim) {
            return Some(found);
        }
        let mut parts = self.claim.split('.');
        let first = claims.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.get(part))
    }
}

/// The operator's rules about claims.
#[derive(Clone, Debug, Default)]
pub struct ClaimPolicy {
    /// All of them must hold.
    require: Vec<ClaimRule>,
    /// By agent; one of its rules must hold. An agent without rules is for everybody.
    agents: BTreeMap<String, Vec<ClaimRule>>,
    /// One of them makes its bearer an administrator.
    admin: Vec<ClaimRule>,
    /// One of them lets its bearer only watch.
    observe: Vec<ClaimRule>,
}

/// Rights that a login carries in one digit, beside those about agents.
const OBSERVE: u8 = 1;
const ADMIN: u8 = 2;

impl ClaimPolicy {
    /// The policy, and every fault. `allow` as in `NAME=CLAIM=VALUE`.
    pub fn read(require: &[String], allow: &[String]) -> (Self, Vec<String>) {
        let (mut policy, mut faults) = (Self::default(), Vec::new());
        for text in require {
            match text.parse() {
                Ok(rule) => policy.require.push(rule),
                Err(fault) => faults.push(format!("--auth-require {text:?}: {fault}")),
            }
        }
        for text in allow {
            let read = match text.split_once('=') {
                Some((name, rule)) if AgentCard::is_name(name) => {
                    rule.parse().ok().map(|rule| (name, rule))
                }
                _ => None,
            };
            match read {
                Some((name, rule)) => policy.agents.entry(name.into()).or_default().push(rule),
                None => faults.push(format!(
                    "--allow-agent {text:?}: write NAME=CLAIM=VALUE, such as coder=groups=engineers"
                )),
            }
        }
        if policy.agents.len() > MAX_AGENTS {
            faults.push(format!(
                "--allow-agent: {} agents have rules, {MAX_AGENTS} may",
                policy.agents.len()
            ));
        }
        (policy, faults)
    }

    /// The same with rules about who is an administrator, and who may only watch.
    pub fn with_roles(mut self, admin: &[String], observe: &[String]) -> (Self, Vec<String>) {
        let mut faults = Vec::new();
        let roles = [
            ("--auth-admin", admin, &mut self.admin),
            ("--auth-observe", observe, &mut self.observe),
        ];
        for (option, texts, rules) in roles {
            for text in texts {
                match text.parse() {
                    Ok(rule) => rules.push(rule),
                    Err(fault) => faults.push(format!("{option} {text:?}: {fault}")),
                }
            }
        }
        (self, faults)
    }

    /// All that its bearer may do, who is let in.
    pub fn rights(&self, claims: &ClaimMap) -> CallerRights {
        let meets = |rules: &[ClaimRule]| rules.iter().any(|rule| rule.holds(claims));
        CallerRights {
            observe: meets(&self.observe),
            admin: meets(&self.admin),
            denied: self.denied(claims),
            ..CallerRights::default()
        }
    }

    /// All rules about agents.
    pub fn agent_rules(&self) -> impl Iterator<Item = &ClaimRule> {
        self.agents.values().flatten()
    }

    pub fn lets_in(&self, claims: &ClaimMap) -> bool {
        self.require.iter().all(|rule| rule.holds(claims))
    }

    /// The agents that have rules of which none holds.
    pub fn denied(&self, claims: &ClaimMap) -> Arc<[String]> {
        let denied = self.agents.iter();
        let denied = denied.filter(|(_, rules)| !rules.iter().any(|rule| rule.holds(claims)));
        denied.map(|(name, _)| name.clone()).collect()
    }

    /// The rights as a login or ticket carries them: which of the agents that have rules are
    /// denied, under these rules and no others.
    pub fn write(&self, rights: &CallerRights) -> String {
        let mut bits = vec![0u8; self.agents.len().div_ceil(8)];
        for (at, name) in self.agents.keys().enumerate() {
            if rights.denied.contains(name) {
                bits[at / 8] |= 1 << (at % 8);
            }
        }
        let bits: String = bits.iter().map(|byte| format!("{byte:02x}")).collect();
        let roles = u8::from(rights.observe) * OBSERVE + u8::from(rights.admin) * ADMIN;
        let roles = if roles == 0 {
            String::new()
        } else {
            format!(".{roles}")
        };
        format!("{}.{bits}{roles}", self.mark())
    }

    /// `None` if it was written under other rules: its holder has to log in again.
    pub fn read_rights(&self, written: &str) -> Option<CallerRights> {
        let bits = written.strip_prefix(&self.mark())?.strip_prefix('.')?;
        let (bits, roles) = match bits.split_once('.') {
            None => (bits, 0),
            Some((bits, "1" | "2" | "3")) => (bits, written.bytes().last()? - b'0'),
            Some(_) => return None,
        };
        if bits.len() != self.agents.len().div_ceil(8) * 2 {
            return None;
        }
        let mut denied = Vec::new();
        for (at, name) in self.agents.keys().enumerate() {
            let byte = bits.get(at / 8 * 2..at / 8 * 2 + 2)?;
            if u8::from_str_radix(byte, 16).ok()? & (1 << (at % 8)) != 0 {
                denied.push(name.clone());
            }
        }
        Some(CallerRights {
            observe: roles & OBSERVE != 0,
            admin: roles & ADMIN != 0,
            denied: denied.into(),
            ..CallerRights::default()
        })
    }

    /// The same for the same rules.
    fn mark(&self) -> String {
        let mut parts = Vec::new();
        for rule in &self.require {
            parts.extend(["require", &rule.claim, &rule.value]);
        }
        for (name, rules) in &self.agents {
            for rule in rules {
                parts.extend([name.as_str(), &rule.claim, &rule.value]);
            }
        }
        for (kind, rules) in [("role admin", &self.admin), ("role observe", &self.observe)] {
            for rule in rules {
                parts.extend([kind, &rule.claim, &rule.value]);
            }
        }
        digest(&parts)[..12].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(rule: &str, claims: Value) -> bool {
        let rule: ClaimRule = rule.parse().unwrap();
        rule.holds(claims.as_object().unwrap())
    }

    #[test]
    fn a_rule_holds_for_a_value_in_a_list_or_among_the_words_of_a_scope() {
        let claims = json!({
            "groups": ["engineers", "on call"], "scope": "openid baton:use", "scp": "a b",
            "name": "mallory admin", "verified": true, "level": 3, "tenant": "x=y",
            "realm_access": { "roles": ["user"] }, "https://a.example/roles": ["r"],
            "object": { "a": 1 }, "nothing": null,
        });
        for rule in [
            "groups=engineers",
            "groups=on call",
            "scope=baton:use",
            "scp=b",
            "name=mallory admin",
            "verified=true",
            "level=3",
            "tenant=x=y",
            "realm_access.roles=user",
            "https://a.example/roles=r",
        ] {
            assert!(holds(rule, claims.clone()), "{rule}");
        }
        for rule in [
            "groups=engineer",
            "groups=call",
            "groups=[\"engineers\"]",
            "scope=baton",
            "scope=openid baton:use",
            // Its owner may have chosen it.
            "name=admin",
            "verified=1",
            "realm_access.roles=admin",
            "realm_access=roles",
            "object.a.b=1",
            "nothing=null",
            "missing=x",
        ] {
            assert!(!holds(rule, claims.clone()), "{rule}");
        }
    }

    #[test]
    fn every_fault_is_named() {
        let text = |words: &[&str]| {
            words
                .iter()
                .map(|word| word.to_string())
                .collect::<Vec<_>>()
        };
        let require = text(&["groups", "=x", "a=", "fine=x"]);
        let allow = text(&["coder", "coder=groups", "/=a=b", "coder=groups=x"]);
        let (_, faults) = ClaimPolicy::read(&require, &allow);
        assert_eq!(faults.len(), 6, "{faults:?}");
        for fault in faults {
            assert!(fault.contains("write "), "{fault}");
        }
    }

    #[test]
    fn a_role_is_for_who_has_its_claim_and_comes_back_as_it_was_written() {
        let text = |rule: &str| [rule.to_owned()];
        let (policy, faults) =
            ClaimPolicy::default().with_roles(&text("groups=ops"), &text("scope=watch"));
        assert_eq!(faults, Vec::<String>::new());
        for (claims, observe, admin) in [
            (json!({}), false, false),
            (json!({ "groups": "ops" }), false, true),
            (json!({ "scope": "a watch" }), true, false),
            (json!({ "groups": ["ops"], "scope": "watch" }), true, true),
        ] {
            let rights = policy.rights(claims.as_object().unwrap());
            assert_eq!((rights.observe, rights.admin), (observe, admin), "{claims}");
            let written = policy.write(&rights);
            assert_eq!(policy.read_rights(&written), Some(rights));
            assert_eq!(policy.read_rights(&format!("{written}.4")), None);
            assert_eq!(ClaimPolicy::default().read_rights(&written), None);
        }
        let (_, faults) = ClaimPolicy::default().with_roles(&text("x"), &text("=y"));
        assert_eq!(faults.len(), 2, "{faults:?}");
    }

    #[test]
    fn rights_are_read_only_under_the_rules_they_were_written_under() {
        let policy = |allow: &[&str]| {
            let allow: Vec<String> = allow.iter().map(|word| word.to_string()).collect();
            let (policy, faults) = ClaimPolicy::read(&[], &allow);
            assert_eq!(faults, Vec::<String>::new());
            policy
        };
        let rules = policy(&["a=g=1", "b=g=2", "b=g=3"]);
        let claims = json!({ "g": ["3"] });
        let denied = rules.denied(claims.as_object().unwrap());
        assert_eq!(denied[..], ["a".to_owned()]);
        let rights = CallerRights {
            denied,
            ..CallerRights::default()
        };
        let written = rules.write(&rights);
        assert_eq!(rules.read_rights(&written), Some(rights));
        assert_eq!(policy(&["a=g=1", "b=g=2"]).read_rights(&written), None);
        assert_eq!(policy(&[]).read_rights(&written), None);
        for broken in [
            "",
            "x",
            &written[..written.len() - 1],
            &format!("{written}0"),
        ] {
            assert_eq!(rules.read_rights(broken), None, "{broken}");
        }
        let none = policy(&[]);
        let everything = CallerRights::default();
        assert_eq!(none.read_rights(&none.write(&everything)), Some(everything));
    }
}
