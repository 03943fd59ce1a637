//! The operator's rules for tools: annotations of servers overruled, and what each mode asks about,
//! allows and hides.

use super::settings::AgentMode;
use super::tool::ToolEffect;
use crate::mcp::glob;

/// A tool's name as the model knows it; `*` stands for any characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolPattern(pub String);

impl ToolPattern {
    fn fits(&self, tool: &str) -> bool {
        glob::fits(&self.0, tool, |_| true)
    }
}

/// What is said of some tools, in place of what their servers say.
#[derive(Clone, Debug)]
pub struct ToolRule {
    pub tools: ToolPattern,
    pub effect: Option<ToolEffect>,
    pub idempotent: Option<bool>,
    /// `false`: no model learns of them.
    pub offered: Option<bool>,
}

/// What a mode does otherwise than by itself. Hiding comes before allowing, and that before asking.
#[derive(Clone, Debug, Default)]
pub struct ModeRule {
    pub ask: Vec<ToolPattern>,
    pub allow: Vec<ToolPattern>,
    pub hide: Vec<ToolPattern>,
}

#[derive(Clone, Debug, Default)]
pub struct ToolRules {
    /// The first that says something counts.
    pub tools: Vec<ToolRule>,
    pub ask: ModeRule,
    pub code: ModeRule,
    pub architect: ModeRule,
}

impl ToolRules {
    fn first<T>(&self, tool: &str, says: impl Fn(&ToolRule) -> Option<T>) -> Option<T> {
        let mut rules = self.tools.iter().filter(|rule| rule.tools.fits(tool));
        rules.find_map(says)
    }

    /// `by_itself`: by the tool's nature or its annotations.
    pub fn effect(&self, tool: &str, by_itself: ToolEffect) -> ToolEffect {
        self.first(tool, |rule| rule.effect).unwrap_or(by_itself)
    }

    pub fn is_idempotent(&self, tool: &str, by_itself: bool) -> bool {
        self.first(tool, |rule| rule.idempotent)
            .unwrap_or(by_itself)
    }

    fn mode(&self, mode: AgentMode) -> &ModeRule {
        match mode {
            AgentMode::Ask => &self.ask,
            AgentMode::Code => &self.code,
            AgentMode::Architect => &self.architect,
        }
    }

    pub fn is_offered(&self, mode: AgentMode, tool: &str, effect: ToolEffect) -> bool {
        let rule = self.mode(mode);
        let named = |patterns: &[ToolPattern]| patterns.iter().any(|it| it.fits(tool));
        let in_mode = mode != AgentMode::Architect
            || effect == ToolEffect::Reads
            || named(&rule.allow)
            || named(&rule.ask);
        let offered = self.first(tool, |rule| rule.offered).unwrap_or(true);
        offered && in_mode && !named(&rule.hide)
    }

    pub fn is_asked_about(&self, mode: AgentMode, tool: &str, effect: ToolEffect) -> bool {
        let rule = self.mode(mode);
        let named = |patterns: &[ToolPattern]| patterns.iter().any(|it| it.fits(tool));
        !named(&rule.allow) && (named(&rule.ask) || effect.is_asked_about(mode))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ToolEffect::{Edits, Reads, Unknown};

    fn patterns(all: &[&str]) -> Vec<ToolPattern> {
        all.iter().map(|it| ToolPattern((*it).to_owned())).collect()
    }

    #[test]
    fn rules_overrule_annotations_and_modes() {
        let rule = |tools: &str, effect, offered| ToolRule {
            tools: ToolPattern(tools.into()),
            effect,
            idempotent: Some(true),
            offered,
        };
        let rules = ToolRules {
            tools: vec![
                rule("db__query", Some(Reads), None),
                rule("db__*", Some(Unknown), None),
                rule("*__drop*", None, Some(false)),
            ],
            code: ModeRule {
                ask: patterns(&["write_file"]),
                allow: patterns(&["run_command", "db__*"]),
                hide: patterns(&["db__secret"]),
            },
            architect: ModeRule {
                allow: patterns(&["notes__*"]),
                ..ModeRule::default()
            },
            ..ToolRules::default()
        };
        assert_eq!(rules.effect("db__query", Unknown), Reads);
        assert_eq!(rules.effect("db__other", Reads), Unknown);
        assert_eq!(rules.effect("x", Edits), Edits);
        assert!(rules.is_idempotent("db__other", false) && !rules.is_idempotent("x", false));
        let offered = |mode, tool| rules.is_offered(mode, tool, rules.effect(tool, Unknown));
        assert!(offered(AgentMode::Code, "db__other") && !offered(AgentMode::Code, "db__secret"));
        assert!(!offered(AgentMode::Ask, "x__drop_all"));
        assert!(offered(AgentMode::Architect, "db__query"));
        assert!(offered(AgentMode::Architect, "notes__add"));
        assert!(!offered(AgentMode::Architect, "x"));
        let asked = |mode, tool, effect| rules.is_asked_about(mode, tool, effect);
        assert!(asked(AgentMode::Code, "write_file", Edits));
        assert!(!asked(AgentMode::Code, "run_command", Unknown));
        assert!(asked(AgentMode::Ask, "run_command", Unknown));
        assert!(!asked(AgentMode::Architect, "notes__add", Unknown));
    }
}
