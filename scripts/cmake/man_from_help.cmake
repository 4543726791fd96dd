# SPDX-License-Identifier: Apache-2.0
# cmake -DPROGRAM=… -DNAME=… -DOUTPUT=… -P man_from_help.cmake: generates a manual page from a small
# program's own --help, so that the two cannot differ.
execute_process(COMMAND ${PROGRAM} --help OUTPUT_VARIABLE help COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${PROGRAM} --version OUTPUT_VARIABLE version COMMAND_ERROR_IS_FATAL ANY
                OUTPUT_STRIP_TRAILING_WHITESPACE)
string(REGEX MATCH "^${NAME}: ([^\n]*)\n+" first "${help}")
set(purpose "${CMAKE_MATCH_1}")
string(LENGTH "${first}" length)
string(SUBSTRING "${help}" ${length} -1 body)
string(REPLACE "\\" "\\\\" body "${body}")
string(REPLACE "-" "\\-" body "${body}")
string(REGEX REPLACE "\n([.'])" "\n\\\\&\\1" body "${body}")
string(TOUPPER "${NAME}" upper)
file(WRITE ${OUTPUT} ".TH ${upper} 1 \"\" \"${version}\"
.SH NAME
${NAME} \\- ${purpose}
.SH DESCRIPTION
.nf
${body}.fi
")
