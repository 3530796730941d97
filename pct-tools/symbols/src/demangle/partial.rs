//! Names of C++ functions that the demangler cannot read whole: the part of the name that is certain.
//!
//! A mangled function is its name, then the types of its result and parameters. What `cpp_demangle` cannot read is
//! nearly always in these types: an expression such as `Xsr...` of a `std::enable_if`. The name before them is read,
//! and is what people look for. So the types are left out.
//!
//! If the name itself cannot be read, its parts are taken one by one up to the first one that is not plain. A part is
//! preceded by its length, so this much is certain. What is behind it is shown as `<...>` or `::...`.

use super::bounded::Bounded;
use cpp_demangle::{BorrowedSymbol, DemangleOptions, ParseOptions};

/// The name without its types, or its first parts.
pub(super) fn name(mangled: &str, limit: u32) -> Option<String> {
    let encoding = mangled.strip_prefix("__Z").or_else(|| mangled.strip_prefix("_Z"))?;
    // An entity in a function begins with the function, which is read like any other one.
    let function = encoding.trim_start_matches('Z');
    if !is_surely_cpp(function) {
        return None;
    }
    let (function, suffix) = match function.find('.') {
        Some(at) => function.split_at(at),
        None => (function, ""),
    };
    let mut text = without_types(function, limit).or_else(|| first_parts(function))?;
    if encoding.starts_with('Z') {
        text.push_str("::...");
    }
    // Copies that the compiler makes of a function: `.isra.0`.
    if !suffix.is_empty() {
        text.push_str(" [clone ");
        text.push_str(suffix);
        text.push(']');
    }
    Some(text)
}

/// Whether it begins as only names of C++ do. A C program can have a symbol `_Z3foobar`.
fn is_surely_cpp(encoding: &str) -> bool {
    if ["N", "St", "Th", "Tv", "Tc"].iter().any(|start| encoding.starts_with(start)) {
        return true;
    }
    Parts { rest: encoding, text: String::new() }
        .source_name()
        .is_some_and(|parts| parts.rest.starts_with('I'))
}

/// What `cpp_demangle` reads before the first thing that it does not understand, without results and parameters.
fn without_types(encoding: &str, limit: u32) -> Option<String> {
    let mangled = format!("_Z{encoding}");
    let parsing = ParseOptions::default().recursion_limit(limit);
    let (symbol, _) = BorrowedSymbol::with_tail_and_options(mangled.as_bytes(), &parsing).ok()?;
    let mut out = Bounded(String::with_capacity(mangled.len()));
    let options = DemangleOptions::default().recursion_limit(limit).no_params().no_return_type();
    symbol.structured_demangle(&mut out, &options).ok()?;
    // Without parameters, the `&` behind them stays.
    let text = out.0.strip_suffix(" &&").or_else(|| out.0.strip_suffix(" &")).unwrap_or(&out.0);
    Some(text.to_owned())
}

/// `std::make_shared<...>`: the parts of a name up to the first template arguments.
fn first_parts(encoding: &str) -> Option<String> {
    let nested = encoding.strip_prefix('N');
    // Qualifiers of a member function: `const`, `volatile`, `&`, `&&`.
    let rest = nested.unwrap_or(encoding).trim_start_matches(['r', 'V', 'K', 'R', 'O']);
    let mut parts = Parts { rest, text: String::new() }.standard();
    while let Some(more) = parts.source_name() {
        parts = more;
        if nested.is_none() {
            break;
        }
    }
    if parts.text.is_empty() {
        return None;
    }
    let is_whole = parts.rest.starts_with('E') || nested.is_none();
    parts.text.push_str(match parts.rest.as_bytes().first() {
        Some(b'I') => "<...>",
        _ if is_whole => "",
        _ => "::...",
    });
    Some(parts.text)
}

/// Parts of a name that have been read, and what is behind them.
struct Parts<'a> {
    rest: &'a str,
    text: String,
}

impl<'a> Parts<'a> {
    /// The abbreviations that stand for the same name everywhere.
    fn standard(self) -> Self {
        const STANDARD: [(&str, &str); 7] = [
            ("St", "std"),
            ("Sa", "std::allocator"),
            ("Sb", "std::basic_string"),
            ("Ss", "std::string"),
            ("Si", "std::istream"),
            ("So", "std::ostream"),
            ("Sd", "std::iostream"),
        ];
        for (short, long) in STANDARD {
            if let Some(rest) = self.rest.strip_prefix(short) {
                return Self { rest, text: long.to_owned() };
            }
        }
        self
    }

    /// One more part: its length in decimal digits, then its text; then tags of its version of the ABI.
    fn source_name(&self) -> Option<Self> {
        let (part, mut rest) = counted(self.rest.strip_prefix('L').unwrap_or(self.rest))?;
        let mut text = self.text.clone();
        if !text.is_empty() {
            text.push_str("::");
        }
        text.push_str(if part.starts_with("_GLOBAL__N") { "(anonymous namespace)" } else { part });
        while let Some((tag, behind)) = rest.strip_prefix('B').and_then(counted) {
            text.push_str("[abi:");
            text.push_str(tag);
            text.push(']');
            rest = behind;
        }
        Some(Self { rest, text })
    }
}

/// A text behind its length, and what follows.
fn counted(text: &str) -> Option<(&str, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let length: usize = text[..digits].parse().ok()?;
    let part = text[digits..].get(..length).filter(|part| !part.is_empty())?;
    Some((part, &text[digits + length..]))
}
#[cfg(test)]
mod tests {
    use crate::demangle;
    use proptest::prelude::*;

    /// From libstdc++, node (V8) and a Rust tool chain: results that are expressions.
    #[test]
    fn names_are_read_up_to_their_types() {
        for (mangled, wanted) in [
            (
                "_ZN2v84base17PrintCheckOperandIPKaEENSt9enable_ifIXaaaantsrSt11is_functionINSt14remove_p\
                 ointerIT_E4typeEE5valuentsrSt7is_enumIS7_E5valuesrNS0_19has_output_operatorIS7_NS0_18Che\
                 ckMessageStreamEvEE5valueENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEE4typeES7_",
                "v8::base::PrintCheckOperand<signed char const*>",
            ),
            (
                "_ZN2v84base17PrintCheckOperandIcEENSt9enable_ifIXaaaantsrSt11is_functionINSt14remove_poi\
                 nterIT_E4typeEE5valuentsrSt7is_enumIS5_E5valuesrNS0_19has_output_operatorIS5_NS0_18Check\
                 MessageStreamEvEE5valueENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEE4typeES5_",
                "v8::base::PrintCheckOperand<char>",
            ),
            (
                "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE6appendISt17basic_string_viewIcS2_E\
                 EENSt9enable_ifIXsrSt6__and_IJSt14is_convertibleIRKT_S7_ESt6__not_ISA_IPSC_PKS4_EESF_ISA\
                 _ISD_PKcEEEE5valueERS4_E4typeESD_.isra.0",
                "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::append<\
                 std::basic_string_view<char, std::char_traits<char> > > [clone .isra.0]",
            ),
            (
                "_ZSt10from_charsItENSt9enable_ifIXsrSt5__or_IJS1_IJSt7is_sameINSt9remove_cvIT_E4typeEaES\
                 2_IS6_sES2_IS6_iES2_IS6_lES2_IS6_xES2_IS6_nEEES1_IJS2_IS6_hES2_IS6_tES2_IS6_jES2_IS6_mES\
                 2_IS6_yES2_IS6_oEEES2_IcS6_EEE5valueESt17from_chars_resultE4typeEPKcSR_RS4_i",
                "std::from_chars<unsigned short>",
            ),
            (
                "_ZSt14__copy_move_a1ILb1EPN2v88internal21SafepointTableBuilder12EntryBuilderES3_EN9__gnu\
                 _cxx11__enable_ifIXsrSt23__is_random_access_iterIT0_NSt15iterator_traitsIS8_E17iterator_\
                 categoryEE7__valueESt15_Deque_iteratorIT1_RSE_PSE_EE6__typeES8_S8_SH_",
                "std::__copy_move_a1<true, v8::internal::SafepointTableBuilder::EntryBuilder*, v8::intern\
                 al::SafepointTableBuilder::EntryBuilder>",
            ),
            (
                "_ZSt14__copy_move_a1ILb1EPSt4pairIN2v88platform27DefaultForegroundTaskRunner11Nestabilit\
                 yESt10unique_ptrINS1_4TaskESt14default_deleteIS6_EEESA_EN9__gnu_cxx11__enable_ifIXsrSt23\
                 __is_random_access_iterIT0_NSt15iterator_traitsISF_E17iterator_categoryEE7__valueESt15_D\
                 eque_iteratorIT1_RSL_PSL_EE6__typeESF_SF_SO_",
                "std::__copy_move_a1<true, std::pair<v8::platform::DefaultForegroundTaskRunner::Nestabili\
                 ty, std::unique_ptr<v8::Task, std::default_delete<v8::Task> > >*, std::pair<v8::platform\
                 ::DefaultForegroundTaskRunner::Nestability, std::unique_ptr<v8::Task, std::default_delet\
                 e<v8::Task> > > >",
            ),
            (
                "_ZSt23__copy_move_backward_a1ILb1EPPN2v88internal8compiler18DeoptimizationExitES4_EN9__g\
                 nu_cxx11__enable_ifIXsrSt23__is_random_access_iterIT0_NSt15iterator_traitsIS9_E17iterato\
                 r_categoryEE7__valueESt15_Deque_iteratorIT1_RSF_PSF_EE6__typeES9_S9_SI_",
                "std::__copy_move_backward_a1<true, v8::internal::compiler::DeoptimizationExit**, v8::int\
                 ernal::compiler::DeoptimizationExit*>",
            ),
            (
                "_ZSt4swapIN2v88internal8GCTracer5EventEENSt9enable_ifIXsrSt6__and_IJSt6__not_ISt15__is_t\
                 uple_likeIT_EESt21is_move_constructibleIS8_ESt18is_move_assignableIS8_EEE5valueEvE4typeE\
                 RS8_SI_",
                "std::swap<v8::internal::GCTracer::Event>",
            ),
            (
                "_ZSteqIcEN9__gnu_cxx11__enable_ifIXsrSt9__is_charIT_E7__valueEbE6__typeERKNSt7__cxx1112b\
                 asic_stringIS3_St11char_traitsIS3_ESaIS3_EEESE_.isra.0",
                "std::operator==<char> [clone .isra.0]",
            ),
            (
                "_ZZNSt8__detail13__to_chars_16IjEENSt9enable_ifIXsrSt5__or_IJS2_IJSt7is_sameINSt9remove_\
                 cvIT_E4typeEaES3_IS7_sES3_IS7_iES3_IS7_lES3_IS7_xES3_IS7_nEEES2_IJS3_IS7_hES3_IS7_tES3_I\
                 S7_jES3_IS7_mES3_IS7_yES3_IS7_oEEES3_IcS7_EEE5valueESt15to_chars_resultE4typeEPcSR_S5_E8\
                 __digits",
                "std::__detail::__to_chars_16<unsigned int>::...",
            ),
            (
                "_ZSt14__copy_move_a1ILb0EPbbEN9__gnu_cxx11__enable_ifIXsrSt23__is_random_access_iterIT0_\
                 NSt15iterator_traitsIS4_E17iterator_categoryEE7__valueESt15_Deque_iteratorIT1_RSA_PSA_EE\
                 6__typeES4_S4_SD_",
                "std::__copy_move_a1<false, bool*, bool>",
            ),
            (
                "_ZSt14__copy_move_a1ILb1EPP12TrcStackElemS1_EN9__gnu_cxx11__enable_ifIXsrSt23__is_random\
                 _access_iterIT0_NSt15iterator_traitsIS6_E17iterator_categoryEE7__valueESt15_Deque_iterat\
                 orIT1_RSC_PSC_EE6__typeES6_S6_SF_",
                "std::__copy_move_a1<true, TrcStackElem**, TrcStackElem*>",
            ),
            (
                "_ZSt14__copy_move_a1ILb1EPbbEN9__gnu_cxx11__enable_ifIXsrSt23__is_random_access_iterIT0_\
                 NSt15iterator_traitsIS4_E17iterator_categoryEE7__valueESt15_Deque_iteratorIT1_RSA_PSA_EE\
                 6__typeES4_S4_SD_",
                "std::__copy_move_a1<true, bool*, bool>",
            ),
        ] {
            assert_eq!(demangle(mangled), wanted, "{mangled}");
        }
    }

    #[test]
    fn of_a_name_that_cannot_be_read_the_first_parts_are_shown() {
        for (mangled, wanted) in [
            ("_ZSt11make_sharedIXsrSt1AIT_E1vEEvv", "std::make_shared<...>"),
            ("_ZN2v84base3FooIXsrSt1AIT_E1vEE3barEv", "v8::base::Foo<...>"),
            ("_ZNKSs3fooB5cxx11IXsrSt1AIT_E1vEEEv", "std::string::foo[abi:cxx11]<...>"),
            (
                "_ZN12_GLOBAL__N_1L3runIXsrSt1AIT_E1vEEEv.cold",
                "(anonymous namespace)::run<...> [clone .cold]",
            ),
            ("_ZN3fooUzE", "foo::..."),
            ("_ZZN3foo3runIXsrSt1AIT_E1vEEEvvE5cache", "foo::run<...>::..."),
            ("_ZZZN3foo3runIXsrSt1AIT_E1vEEEvvENKUlvE_clEvE5cache", "foo::run<...>::..."),
            ("_ZNO3foo3runEXsrSt1AIT_E1v", "foo::run"),
            ("_Z3fooIXsrSt1AIT_E1vEEvv@plt", "foo<...>@plt"),
            ("_Z3runIiEXsrSt1AIT_E1v.part.0.isra.1", "run<int> [clone .part.0.isra.1]"),
            // A symbol of another language, a name that is cut, a length that is too large.
            ("_Z3foobar", "_Z3foobar"),
            ("_ZngA", "_ZngA"),
            ("_ZN", "_ZN"),
            ("_ZN9foo", "_ZN9foo"),
            ("_ZN99999999999999999999foo", "_ZN99999999999999999999foo"),
        ] {
            assert_eq!(demangle(mangled), wanted, "{mangled}");
        }
        // Deeper than the demangler reads.
        let deep = format!("_ZN3foo3barI{}i{}EEvv", "1AI".repeat(500), "E".repeat(500));
        assert_eq!(demangle(&deep), "foo::bar<...>");
    }

    proptest! {
        #[test]
        fn any_text_is_read_in_part_or_unchanged(
            name in "_{1,2}Z{1,3}(N?(St|Sa|S_|[1-9]|1a|3abc|I|E|X|L|B|ö|\\.|C1|K){0,20})",
        ) {
            let _ = demangle(&name);
        }
    }
}
