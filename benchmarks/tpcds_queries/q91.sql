-- Which losses by returns do call centers have with some groups of customers?
SELECT cc_call_center_id, cc_name, cc_manager, sum(cr_net_loss) AS loss
FROM catalog_returns
JOIN call_center ON cc_call_center_sk = cr_call_center_sk
JOIN date_dim ON d_date_sk = cr_returned_date_sk
JOIN customer ON c_customer_sk = cr_returning_customer_sk
JOIN customer_demographics ON cd_demo_sk = c_current_cdemo_sk
JOIN household_demographics ON hd_demo_sk = c_current_hdemo_sk
JOIN customer_address ON ca_address_sk = c_current_addr_sk
WHERE d_year BETWEEN 1998 AND 2002
  AND (cd_marital_status, cd_education_status) IN (
    ('M', 'Unknown'), ('M', 'College'), ('W', 'Advanced Degree'), ('S', 'Secondary')
  )
  AND hd_buy_potential IN ('Unknown', '0-500', '>10000')
  AND ca_gmt_offset IN (-5, -6, -7)
GROUP BY cc_call_center_id, cc_name, cc_manager, cd_marital_status, cd_education_status
ORDER BY loss DESC, cc_call_center_id, cc_name, cc_manager
