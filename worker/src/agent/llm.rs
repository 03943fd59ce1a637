//! The native agent: it talks to any model endpoint, uses tools, and keeps nothing in its process.
//!
//! | file | what |
//! |---|---|
//! | [`model`] | what is asked of a model and what it answers, whatever protocol it speaks |
//! | [`model_error`] | why a model did not answer, and what to do about it |
//! | [`provider`] | the protocols of model endpoints |

pub mod model;
pub mod model_error;
pub mod provider;
