//! `baton connect`: an editor starts it and sees an agent, and nothing of what is in between.

mod credentials;
mod editor;
mod endings;
mod giving_up;
mod middlebox;
mod restoring;
mod transports;
mod under_fire;
