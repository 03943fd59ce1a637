//! Systems without Landlock.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LandlockSupport;

impl LandlockSupport {
    pub fn abi(self) -> i32 {
        0
    }

    pub fn is_some(self) -> bool {
        false
    }

    pub fn confines_tcp(self) -> bool {
        false
    }

    pub fn confines(self) -> String {
        String::new()
    }

    pub fn leaves_open(self) -> String {
        "everything".to_owned()
    }
}

pub fn support() -> LandlockSupport {
    LandlockSupport
}
