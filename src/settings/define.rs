//! How a row of the [table](super::table) becomes a setting of PostgreSQL.

use std::{
    ffi::{CStr, CString},
    ops::RangeInclusive,
};

use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting, guc::GucEnum};

use super::table::SETTINGS;

/// What is defined of a setting. The reference in `docs/` is generated from it.
pub struct Setting {
    pub name: &'static CStr,
    pub value: &'static dyn Value,
    pub set_by: SetBy,
    pub flags: GucFlags,
    pub summary: &'static CStr,
    pub details: &'static CStr,
}

/// Who may set a setting, and where.
pub enum SetBy {
    Anybody,
    Superuser,
    /// The configuration file, followed by a reload.
    ConfigurationFile,
}

impl SetBy {
    fn context(&self) -> GucContext {
        match self {
            Self::Anybody => GucContext::Userset,
            Self::Superuser => GucContext::Suset,
            Self::ConfigurationFile => GucContext::Sighup,
        }
    }
}

/// The variable of a setting, with its type and limits.
pub trait Value: Sync {
    fn define(&self, setting: &Setting);
}

pub struct Text(pub &'static GucSetting<Option<CString>>);
pub struct Number(pub &'static GucSetting<i32>, pub RangeInclusive<i32>);
pub struct Switch(pub &'static GucSetting<bool>);
pub struct Choice<T: GucEnum + 'static>(pub &'static GucSetting<T>);

impl Value for Text {
    fn define(&self, s: &Setting) {
        GucRegistry::define_string_guc(
            s.name,
            s.summary,
            s.details,
            self.0,
            s.set_by.context(),
            s.flags,
        );
    }
}

impl Value for Number {
    fn define(&self, s: &Setting) {
        let (min, max) = (*self.1.start(), *self.1.end());
        GucRegistry::define_int_guc(
            s.name,
            s.summary,
            s.details,
            self.0,
            min,
            max,
            s.set_by.context(),
            s.flags,
        );
    }
}

impl Value for Switch {
    fn define(&self, s: &Setting) {
        GucRegistry::define_bool_guc(
            s.name,
            s.summary,
            s.details,
            self.0,
            s.set_by.context(),
            s.flags,
        );
    }
}

impl<T: GucEnum> Value for Choice<T> {
    fn define(&self, s: &Setting) {
        GucRegistry::define_enum_guc(
            s.name,
            s.summary,
            s.details,
            self.0,
            s.set_by.context(),
            s.flags,
        );
    }
}

/// Defines all settings and reserves their prefix.
pub fn define() {
    for setting in &SETTINGS {
        setting.value.define(setting);
    }
    crate::pg::compat::reserve_setting_prefix();
}
