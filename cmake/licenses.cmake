# Writes OUTPUT, a source file that holds LICENSE and THIRD_PARTY_NOTICES of SOURCE_DIR.
file(READ ${SOURCE_DIR}/LICENSE license)
file(READ ${SOURCE_DIR}/THIRD_PARTY_NOTICES notices)
file(WRITE ${OUTPUT} "#include \"cli/licenses.h\"\n
namespace quire::cli {\n
const char kLicenses[] = R\"LICENSES(${license}
${notices})LICENSES\";\n
}  // namespace quire::cli\n")
